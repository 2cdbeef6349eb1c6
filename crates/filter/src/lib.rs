//! nfdump filter language: text into a typed predicate and its mask over a FlowBatch
