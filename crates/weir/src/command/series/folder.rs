//! Statistics that are read from the folder of a store.

use std::cell::OnceCell;
use std::sync::Arc;

use anyhow::Context;
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::Schema;
use weir_series::{
    Catalogue, Coverage, Family, FamilyId, Fetched, Metric, Resolution, RowSelection, SeriesId, SeriesStore,
};

use super::source::{ENDINGS, KnownSteps, SeriesRequest, SeriesSource, SeriesValues, SourceRows, StepLength};

/// The store of a folder.
pub(super) struct FolderSource {
    store: Arc<SeriesStore>,
    /// Read when it is asked for: keys are there before the steps that have them, so it is read after the steps were found.
    catalogue: OnceCell<Arc<Catalogue>>,
}

impl FolderSource {
    pub(super) fn new(store: SeriesStore) -> Self {
        Self { store: Arc::new(store), catalogue: OnceCell::new() }
    }

    /// Which series there are; the first time, says when the file is damaged.
    fn catalogue(&self) -> anyhow::Result<&Arc<Catalogue>> {
        if let Some(catalogue) = self.catalogue.get() {
            return Ok(catalogue);
        }
        let catalogue = self.store.catalogue()?;
        let (repaired, damaged) = (catalogue.repaired_lines(), catalogue.damaged_lines());
        if repaired > 0 {
            eprintln!("warning: the catalogue of keys is damaged: {repaired} wrong bits are corrected");
        }
        if damaged > 0 {
            eprintln!(
                "warning: the catalogue of keys is damaged: {damaged} lines cannot be read, and their series have no key"
            );
        }
        Ok(self.catalogue.get_or_init(|| Arc::new(catalogue)))
    }

    fn family(&self, by: &str) -> anyhow::Result<(FamilyId, &Family)> {
        self.store.family(by).with_context(|| format!("there are no series by {by}"))
    }

    fn resolution(&self, step: StepLength) -> anyhow::Result<Resolution> {
        let found = self.store.resolutions().iter().find(|resolution| resolution.step_secs == step.step_secs);
        found.copied().with_context(|| format!("there are no steps of {}s", step.step_secs))
    }
}

impl SeriesSource for FolderSource {
    fn families(&self) -> Vec<&str> {
        self.store.families().iter().map(|family| family.name.as_str()).collect()
    }

    fn listing(&self) -> anyhow::Result<RecordBatch> {
        let catalogue = self.catalogue()?;
        let families = || (0..).map(FamilyId).zip(self.store.families());
        let texts = |of: &dyn Fn(&Family) -> String| -> ArrayRef {
            Arc::new(families().map(|(_, family)| Some(of(family))).collect::<StringArray>())
        };
        let keys: UInt64Array = families().map(|(id, _)| Some(catalogue.series(id).count() as u64)).collect();
        let metrics =
            |family: &Family| family.metrics.iter().map(|metric| metric.name.as_str()).collect::<Vec<_>>().join(" ");
        let coverage = |family: &Family| match family.coverage {
            Coverage::Complete => "all".to_owned(),
            Coverage::Largest => "the largest of each step, and other".to_owned(),
        };
        Ok(RecordBatch::try_from_iter([
            ("by", texts(&|family| family.name.clone())),
            ("keys", Arc::new(keys) as ArrayRef),
            ("metrics", texts(&metrics)),
            ("kept", texts(&coverage)),
        ])?)
    }

    fn keys(&self, by: &str) -> anyhow::Result<Vec<&str>> {
        let (id, _) = self.family(by)?;
        let mut keys: Vec<&str> = self.catalogue()?.series(id).map(|(_, key)| key).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    fn has_key(&self, by: &str, key: &str) -> anyhow::Result<bool> {
        let (id, _) = self.family(by)?;
        Ok(self.catalogue()?.id(id, key).is_some())
    }

    fn may_have_lost_keys(&self, by: &str) -> anyhow::Result<bool> {
        let (id, _) = self.family(by)?;
        Ok(self.store.may_have_lost_keys(id, self.catalogue()?))
    }

    fn steps(&self) -> Vec<StepLength> {
        let length = |one: &Resolution| StepLength { step_secs: one.step_secs, keep_secs: Some(one.keep_secs) };
        self.store.resolutions().iter().map(length).collect()
    }

    /// All series have the same steps.
    fn extent(&self, step: StepLength, _by: Option<&str>) -> anyhow::Result<Option<(i64, i64)>> {
        Ok(self.store.extent(self.resolution(step)?)?)
    }

    fn may_grow(&self, step: StepLength) -> bool {
        step.step_secs == self.store.resolutions()[0].step_secs
    }

    fn rows<'a>(&'a self, wanted: &SeriesRequest<'_>) -> anyhow::Result<SourceRows<'a>> {
        let (_, family) = self.family(wanted.by)?;
        let resolution = self.resolution(wanted.step)?;
        let selection = RowSelection {
            resolution,
            families: Some(vec![wanted.by.to_owned()]),
            keys: (!wanted.keys.is_empty()).then(|| wanted.keys.to_vec()),
            from_secs: wanted.from_secs,
            until_secs: wanted.until_secs,
        };
        let is_finest = resolution == self.store.resolutions()[0];
        let rows = self.store.rows_with(&selection, Arc::clone(self.catalogue()?))?;
        let columns = columns_of(&rows.schema(), family, is_finest);
        let schema = Arc::new(rows.schema().project(&columns)?);
        // steps that are damaged hide no other ones
        let readable = rows.filter(|batch| match batch {
            Err(error) if error.is_damage() => {
                eprintln!("warning: {error}");
                false
            }
            _ => true,
        });
        let batches = readable.map(move |batch| -> anyhow::Result<RecordBatch> { Ok(batch?.project(&columns)?) });
        Ok(SourceRows { schema, batches: Box::new(batches) })
    }

    fn values(&self, wanted: &SeriesRequest<'_>) -> anyhow::Result<Box<dyn SeriesValues>> {
        let (id, family) = self.family(wanted.by)?;
        let catalogue = Arc::clone(self.catalogue()?);
        let ids: Vec<SeriesId> = wanted.keys.iter().filter_map(|key| catalogue.id(id, key)).collect();
        let listed = (!wanted.keys.is_empty()).then_some(&ids[..]);
        let resolution = self.resolution(wanted.step)?;
        let fetched = self.store.fetch(id, listed, resolution, wanted.from_secs, wanted.until_secs)?;
        for damage in &fetched.damaged {
            eprintln!("warning: {damage}");
        }
        let steps = KnownSteps {
            first_secs: fetched.first_secs,
            step_secs: fetched.step_secs,
            finest_secs: f64::from(self.store.resolutions()[0].step_secs),
            known: fetched.known.clone(),
        };
        Ok(Box::new(FolderValues { fetched, steps, family: family.clone(), id, catalogue }))
    }
}

/// Series that were read from a folder.
struct FolderValues {
    fetched: Fetched,
    steps: KnownSteps,
    family: Family,
    id: FamilyId,
    catalogue: Arc<Catalogue>,
}

impl SeriesValues for FolderValues {
    fn steps(&self) -> &KnownSteps {
        &self.steps
    }

    fn metrics(&self) -> &[Metric] {
        &self.family.metrics
    }

    fn count(&self) -> usize {
        self.fetched.series.len()
    }

    fn key(&self, series: usize) -> &str {
        self.catalogue.key(self.id, self.fetched.series[series].id).unwrap_or("?")
    }

    fn totals<'a>(&'a self, series: usize, metric: usize) -> Box<dyn Iterator<Item = Option<u64>> + 'a> {
        self.fetched.totals(&self.family, &self.fetched.series[series], metric)
    }
}

/// The columns that say something of a family: those of its metrics, and in the finest steps only their values.
fn columns_of(schema: &Schema, family: &Family, is_finest: bool) -> Vec<usize> {
    let says_something = |name: &str| {
        let metric = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending));
        match (metric, family.metric(metric.unwrap_or(name))) {
            (Some(_), known) => known.is_some() && !is_finest,
            (None, Some(_)) => true,
            (None, None) => {
                matches!(name, "time" | "step" | "by" | "key") || matches!(name, "known" | "count") && !is_finest
            }
        }
    };
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| says_something(field.name())).map(|(place, _)| place).collect()
}
