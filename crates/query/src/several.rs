//! Several groupings of the same flows.
//!
//! Whoever looks at some flows wants to know their addresses, ports and protocols at once. Reading the flows is most of the
//! work, so it is done once for all. What speaks against it is memory: each grouping counts everything of all of its groups in
//! that pass, where one alone would first find out which of them are in the answer. When there is too little, each is asked
//! for itself. So it is without a filter, too: then summaries may have the answer, and no flow is read.
//!
//! All of them are one question, with one turn until the last answer is dropped: a turn for each would be one that the others hold.

use arrow::array::RecordBatch;
use weir_filter::Predicate;

use crate::archive::answer_of_groups;
use crate::group::Grouping;
use crate::passes::parts_of_several;
use crate::scan::ScanSpec;
use crate::{Answer, Archive, FlowQuery, QueryError, Select};

impl Archive {
    /// Answers a question once for each of `selects`, which take the place of its own, in their order: in one pass over the
    /// flows where all of them group what a filter takes.
    pub fn ask_several(
        &self,
        question: &FlowQuery,
        selects: &[Select],
    ) -> Result<Vec<Answer<RecordBatch>>, QueryError> {
        let is_filtered = question.filter != Predicate::True && !question.scaled && !self.options.approximate;
        let groupings: Option<Vec<Grouping>> = selects.iter().map(Grouping::of).collect();
        let in_one_pass = groupings.filter(|groupings| is_filtered && groupings.len() > 1);
        let admitted = self.admitted()?;
        match in_one_pass.map(|groupings| self.in_one_pass(question, groupings)) {
            None | Some(Err(QueryError::Memory(_))) => {
                let each = |select: &Select| {
                    let question = FlowQuery { select: select.clone(), ..question.clone() };
                    self.ask_admitted(admitted.clone(), &question, |batch| batch)
                };
                selects.iter().map(each).collect()
            }
            Some(answers) => Ok(answers?.into_iter().map(|answer| answer.in_turn(admitted.clone())).collect()),
        }
    }

    fn in_one_pass(
        &self,
        question: &FlowQuery,
        groupings: Vec<Grouping>,
    ) -> Result<Vec<Answer<RecordBatch>>, QueryError> {
        let options = &self.options;
        let wanted = ScanSpec::new(question, groupings.iter().flat_map(Grouping::columns));
        let parts = parts_of_several(&self.flows(&question.window), &wanted, &groupings, options)?;
        let answers = groupings.into_iter().zip(parts);
        answers.map(|(grouping, parts)| answer_of_groups(grouping, parts, options, |batch| batch)).collect()
    }
}
