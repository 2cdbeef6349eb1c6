//! Pictures of chains.

use weir_chain::draw;

use crate::components::parse;

const TEXT: &str = "
name = \"two < three\"
[components.one]
type = \"numbers\"
[components.two]
type = \"numbers\"
[components.merge]
type = \"merge\"
inputs = { left = \"one\", right = \"two\" }
burst_records = 512
[components.sink]
type = \"note\"
inputs = [\"merge\"]
into = \"drawing\"
";

#[test]
fn text_shows_threads_and_queues() {
    let text = draw::text(&parse(TEXT).expect("a chain"));
    let expected = "two < three: 4 components, 3 threads, 2 queues

thread one
  one (numbers)
    ══ 512 × 100 ══▶ merge.left

thread two
  two (numbers)
    ══ 512 × 100 ══▶ merge.right

thread merge
  merge (merge)
    ──▶ sink
  sink (note)
";
    assert_eq!(text, expected);
}

#[test]
fn pictures_are_well_formed() {
    let svg = draw::svg(&parse(TEXT).expect("a chain"));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("two &lt; three"));
    assert_eq!(svg.matches("rx=\"6\"").count(), 4, "a box for each component");
    assert_eq!(svg.matches("512 × 100").count(), 2, "a label for each queue");
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
}
