//! `weir chain kinds`: what chains can be made of.

use anyhow::bail;
use weir_chain::reference;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print everything about this kind of component
    #[arg(value_name = "KIND")]
    kind: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let registry = crate::command::chain_parts::registry();
    match &args.kind {
        None => print!("{}", reference::list(&registry)),
        Some(name) => match registry.get(name) {
            Some(kind) => print!("{}", reference::page(kind)),
            None => bail!("there is no kind of component '{name}'\nhint: weir chain kinds lists them"),
        },
    }
    Ok(())
}
