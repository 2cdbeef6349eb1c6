//! Questions to the archive, in SQL or as nfdump asks them.
//!
//! An [`Engine`] sees an archive at one position, sealed segments and tail as one table. [`Engine::sql`] takes a
//! statement, [`Engine::ask`] a [`FlowQuery`]; both give an [`Answer`], whose batches come while the engine still
//! works. [`output`] writes answers as text.
//!
//! `DataFusion` plans and computes; what is ours is what it cannot know: how segments and tail are read
//! ([`FlowScanExec`]), that addresses are written as text, what nfdump's filters mean ([`filter_expr`]), and how flows
//! are printed. What speaks against a general engine is its weight, twenty minutes of compiling and some milliseconds of
//! start; in return every question that SQL can put is answered, with joins, windows and spilling to disk.
//!
//! This crate knows no HTTP and writes no flows.

pub mod answer;
pub mod control;
pub mod engine;
pub mod enrichment;
pub mod error;
pub mod flows;
pub mod functions;
pub mod mistake;
pub mod output;
pub mod parameters;
pub mod samples;
pub mod service;
pub mod standing;
pub mod stored_flows;
pub mod stored_series;
pub mod timeline;
pub mod user_tables;
pub mod value_names;
pub mod view;
pub mod why_empty;

mod ask;
mod compared;
mod contents;
mod describe;
mod exact_literals;
mod exact_numbers;
mod explain;
mod headings;
mod inet;
mod lengths;
mod limits;
mod literals;
mod masking;
mod operators;
mod other_names;
mod reported_names;
mod reports_table;
mod scaling;
mod scan;
mod series_table;
mod statement;
mod statement_check;
mod statement_size;
mod text_arguments;
mod threads;
mod times_of_flows;
mod unanswered;
mod values;

pub use answer::{Answer, AnswerStream};
pub use control::{QueryControl, Reached};
pub use describe::{ColumnDescription, TableDescription};
pub use engine::{Engine, EngineOptions, Totals};
pub use enrichment::{Enrichment, EnrichmentFiles, KnownAddress, VERSIONS_FOLDER};
pub use error::EngineError;
pub use flows::{FlowAnswer, FlowAnswers};
pub use functions::filter_expr;
pub use mistake::{Mistake, MistakeKind, Place};
pub use parameters::{ParameterValue, StatementDescription};
pub use samples::FlowSample;
pub use scan::encoded::PlanCodecError;
pub use scan::flow_exec::FlowScanExec;
pub use service::{AnswerSender, Asker, Login, Question, QuestionService, Reason, Refusal, Work};
pub use statement_check::check_statement_size;
pub use threads::BusyThreads;
pub use timeline::{Tally, TimeLine};
pub use user_tables::UserTable;
pub use value_names::{NameColumns, NameFiles, ValueNames};
pub use view::{FlowView, Pseudonyms};
pub use weir_query::{
    AggregateKey, Direction, FlowQuery, Measure, Order, Progress, ProgressCounts, Select, Sorting, StatisticKey,
    TimeWindow, WindowRule,
};
pub use weir_routes::VersionLimits;
pub use why_empty::EmptyReason;
