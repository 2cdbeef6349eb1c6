//! What stands for the options of nfcapd in `weir collect`: its users try them first.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Options, and what is used instead. The guide `from-nfdump.md` has the same in a table.
const OPTIONS: &[(&str, &str)] = &[
    ("-p", "--listen 0.0.0.0:PORT names the address and the port; NetFlow, IPFIX and sFlow come to the same one"),
    ("-b", "--listen ADDR:PORT names the address and the port"),
    ("-l", "--archive DIR keeps the flows"),
    ("-w", "--archive DIR keeps the flows"),
    ("-M", "--archive DIR keeps the flows of all exporters; the filter 'router ip ADDR' asks for those of one"),
    ("-n", "--archive DIR keeps the flows of all exporters; the filter 'router ip ADDR' asks for those of one"),
    ("-I", "flows have their exporter; the filter 'router ip ADDR' asks for those of one"),
    ("-t", "there is nothing to rotate: flows can be asked for a second after they came"),
    ("-S", "there is nothing to arrange: an archive keeps a folder for each day"),
    ("-x", "--watch FILE and --watch-actions FILE report what happens in the flows"),
    ("-e", "--max-age and --max-size expire flows while they are collected"),
    ("-z", "flows are always compressed"),
    ("-y", "flows are always compressed"),
    ("-j", "flows are always compressed"),
    ("-B", "--buffer SIZE is the buffer of the socket"),
    ("-s", "--sampling-corrections FILE overrides the sampling of exporters"),
    ("-D", "run it as a service of systemd, see the guide to installing"),
    ("-P", "run it as a service of systemd, see the guide to installing"),
    ("-u", "run it as a service of systemd, see the guide to installing"),
    ("-g", "run it as a service of systemd, see the guide to installing"),
];

/// What to use in the place of an option that `weir collect` does not know.
pub(super) fn hint(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    OPTIONS.iter().find(|(of_nfcapd, _)| of_nfcapd == option).map(|(_, here)| *here)
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command};

    use super::*;
    use crate::command::collect;

    #[test]
    fn options_of_nfcapd_are_known() {
        let page = include_str!("../../../../docs/guides/from-nfdump.md");
        let command = collect::Args::augment_args(Command::new("collect"));
        let error_of = |arguments: &[&str]| {
            let arguments = [&["collect", "--archive", "flows"], arguments].concat();
            command.clone().try_get_matches_from(arguments).expect_err("a wrong argument")
        };
        for (option, here) in OPTIONS {
            let error = error_of(&[*option, "1"]);
            assert_eq!(hint(&error), Some(*here), "{option}: {error}");
            assert!(page.contains(&format!("`{option}`")), "the guide does not have {option}");
        }
        assert_eq!(hint(&error_of(&["-k"])), None);
        // a wrong value is no wrong option
        assert_eq!(hint(&error_of(&["--report-interval", "often"])), None);
    }
}
