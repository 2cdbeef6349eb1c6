//! Limits of decoders, as parameters of the blocks that run them.

use weir_chain::{ParameterSpec, ParameterType, Parameters};
use weir_collect::Limits;

/// The parameters: one for each limit.
pub(crate) const SPECS: [ParameterSpec; 5] = [
    ParameterSpec {
        key: "domains_max",
        parameter_type: ParameterType::Integer(1, 1 << 30),
        default: Some("65536"),
        doc: "Most pairs of exporter and Observation Domain that a decoder knows; datagrams of more are counted in \
              datagrams_refused.",
    },
    ParameterSpec {
        key: "templates_per_domain_max",
        parameter_type: ParameterType::Integer(1, 65_280),
        default: Some("4096"),
        doc: "Most Templates of one Observation Domain; more are counted in templates_refused.",
    },
    ParameterSpec {
        key: "template_fields_max",
        parameter_type: ParameterType::Integer(1, 1 << 30),
        default: Some("524288"),
        doc: "Most fields of all Templates that a decoder knows, some hundred octets each; Templates beyond it are \
              counted in templates_refused.",
    },
    ParameterSpec {
        key: "waiting_octets_max",
        parameter_type: ParameterType::Integer(0, 1 << 40),
        default: Some("67108864"),
        doc: "Most octets of Data Sets that wait in a decoder for their Template; beyond it the oldest are given up and \
              counted in sets_expired.",
    },
    ParameterSpec {
        key: "waiting_max_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("1800"),
        doc: "Longest time that a Data Set waits for its Template; then it counts in sets_expired.",
    },
];

/// The limits that the parameters say.
pub(crate) fn read(parameters: &Parameters) -> Limits {
    Limits {
        domains_max: parameters.integer("domains_max") as usize,
        templates_per_domain_max: parameters.integer("templates_per_domain_max") as usize,
        template_fields_max: parameters.integer("template_fields_max") as usize,
        waiting_octets_max: parameters.integer("waiting_octets_max") as usize,
        waiting_secs_max: u32::try_from(parameters.duration("waiting_max_secs").as_secs()).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_a_decoder() {
        let parameters = Parameters::new(&SPECS, &"".parse().expect("TOML"), ".").expect("all have a default");
        assert_eq!(read(&parameters), Limits::default());
    }
}
