declare module "virtual:world" {
  const world: import("../scripts/world.ts").World;
  export default world;
}
