//! The steps of a block, one by one as they were written.

use crate::consolidation::{Consolidated, coarse_columns};
use crate::content::Content;
use crate::resolution::Resolution;
use crate::{Family, FamilyId, FamilyRows, SeriesError};

/// The steps of a block from a time on, in order. All of them are in memory.
pub(super) fn steps_of(
    content: &Content,
    resolution: Resolution,
    block: i64,
    families: &[Family],
    from_secs: i64,
    is_finest: bool,
) -> Result<Vec<Consolidated>, SeriesError> {
    let time = |place: usize| block * resolution.block_secs() + place as i64 * i64::from(resolution.step_secs);
    let known = (0..).zip(content.known()).filter(|&(place, &known)| known > 0 && time(place) >= from_secs);
    let step = |(place, &known): (usize, &u32)| Consolidated { time_secs: time(place), known, groups: Vec::new() };
    let mut steps: Vec<_> = known.map(step).collect();
    for (id, family) in (0..).map(FamilyId).zip(families) {
        let width = if is_finest { family.metrics.len() } else { coarse_columns(family) };
        for step in &mut steps {
            step.groups.push((id, FamilyRows::new(width)));
        }
        let runs = content.runs(id, family, 0, u32::MAX)?;
        steps.retain(|step| !runs.damaged.iter().any(|&place| time(usize::from(place)) == step.time_secs));
        for (index, &series) in runs.ids.iter().enumerate() {
            for row in runs.rows(index) {
                let at = steps.binary_search_by_key(&time(usize::from(runs.places[row])), |step| step.time_secs);
                let Ok(at) = at else { continue };
                if let Some((_, rows)) = steps[at].groups.last_mut() {
                    rows.ids.push(series);
                    for (out, values) in rows.columns.iter_mut().zip(&runs.columns) {
                        out.push(values[row]);
                    }
                    rows.sketches.resize_with(runs.sketches.len(), Vec::new);
                    for (out, sketches) in rows.sketches.iter_mut().zip(&runs.sketches) {
                        out.push(sketches[row].clone());
                    }
                }
            }
        }
    }
    for step in &mut steps {
        step.groups.retain(|(_, rows)| !rows.ids.is_empty());
    }
    Ok(steps)
}
