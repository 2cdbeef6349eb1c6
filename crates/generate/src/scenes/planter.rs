//! Scenes between the flows of a model, as its simulated clock goes on.

use crate::network::Zone;
use crate::random::Random;
use crate::row::Row;
use crate::scenes::script::{SAMPLING_INTERVAL, script};
use crate::scenes::{PlantedScene, Scene, SceneKind};

/// Keeps the sequences of scenes apart from one another and from that of the model: an odd number without a pattern.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hands out the flows of scenes when their time has come.
#[derive(Debug, Clone)]
pub(crate) struct Planter {
    /// Flows with the number of their scene, the first to end at the end of the list.
    rows: Vec<(usize, Row)>,
    /// When the exporter falls silent, the first at the end of the list, and for how long; milliseconds.
    silences: Vec<(i64, i64)>,
    /// From when to when packets are sampled.
    sampled: Vec<(i64, i64)>,
    scenes: Vec<PlantedScene>,
}

impl Planter {
    /// The scenes among the hosts of a zone; `seed` is that of the model.
    pub(crate) fn new(scenes: &[Scene], seed: u64, inside: &Zone) -> Self {
        let mut planter = Self { rows: Vec::new(), silences: Vec::new(), sampled: Vec::new(), scenes: Vec::new() };
        for (number, scene) in scenes.iter().enumerate() {
            let seed = seed.wrapping_add(SEED_STEP.wrapping_mul(number as u64 + 1));
            let script = script(*scene, number, inside, &mut Random::new(seed));
            match scene.kind {
                SceneKind::ExporterSilent => planter.silences.push((scene.at_ms, scene.kind.duration_ms())),
                SceneKind::SamplingChanged => planter.sampled.push((scene.at_ms, scene.end_ms())),
                _ => {}
            }
            planter.scenes.push(PlantedScene {
                scene: *scene,
                key: script.key,
                flows: script.rows.len() as u64,
                flows_out: 0,
                is_over: false,
            });
            planter.rows.extend(script.rows.into_iter().map(|row| (number, row)));
        }
        planter.rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.end_ms));
        planter.silences.sort_by_key(|(at_ms, _)| std::cmp::Reverse(*at_ms));
        planter
    }

    /// Whether there is any scene.
    pub(crate) fn is_empty(&self) -> bool {
        self.scenes.is_empty()
    }

    /// Whether flows have a sampling interval.
    pub(crate) fn has_sampling(&self) -> bool {
        !self.sampled.is_empty()
    }

    /// The next flow that is over at this time.
    pub(crate) fn next_row(&mut self, clock_ms: i64) -> Option<Row> {
        let (number, row) = self.rows.pop_if(|(_, row)| row.end_ms <= clock_ms)?;
        self.scenes[number].flows_out += 1;
        Some(row)
    }

    /// Whether the exporter falls silent at this time.
    pub(crate) fn is_silent(&self, clock_ms: i64) -> bool {
        self.silences.last().is_some_and(|(at_ms, _)| *at_ms <= clock_ms)
    }

    /// For how long the exporter is silent at this time, once; milliseconds.
    pub(crate) fn take_silence_ms(&mut self, clock_ms: i64) -> i64 {
        self.silences.pop_if(|(at_ms, _)| *at_ms <= clock_ms).map_or(0, |(_, duration_ms)| duration_ms)
    }

    /// Makes a flow what an exporter that samples has of it. A flow of few packets is kept with one: which of them are
    /// not seen at all does not matter here.
    pub(crate) fn sample(&self, row: &mut Row, clock_ms: i64) {
        if self.sampled.iter().any(|(from_ms, until_ms)| (*from_ms..*until_ms).contains(&clock_ms)) {
            let octets_per_packet = row.bytes / row.packets.max(1);
            row.packets = row.packets.div_ceil(SAMPLING_INTERVAL.into());
            row.bytes = row.packets * octets_per_packet;
            row.sampling_interval = Some(SAMPLING_INTERVAL);
        }
    }

    /// The scenes at this time.
    pub(crate) fn scenes_at(&self, clock_ms: i64) -> Vec<PlantedScene> {
        let at = |planted: &PlantedScene| PlantedScene {
            is_over: planted.flows_out == planted.flows && planted.scene.end_ms() <= clock_ms,
            ..planted.clone()
        };
        self.scenes.iter().map(at).collect()
    }
}
