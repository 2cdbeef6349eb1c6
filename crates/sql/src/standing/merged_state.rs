//! Aggregates whose panes keep the state of the function, and whose windows merge these states.
//!
//! A sum of sums is a sum, but a count of distinct values is not one of counts. What the engine hands from one thread that
//! aggregates to the next does combine: the distinct values, or the registers of a sketch. Here a pane gives that state
//! as a structure ([`StateOf`]), and a window merges the structures of its panes ([`MergeOf`]), both by the engine's own
//! code. What speaks against it is the size of a state: that of distinct values is not larger than the rows; that of
//! `approx_distinct` by group is the hashes of up to 256 values and then the 16 KiB of a sketch, so it counts by its memory. That is the state
//! of accumulators for all groups ([`GroupsAccumulator`]), which this hands on where a function has them. Sketches of
//! percentiles have none and some kilobytes for each group: those by group are not for this.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray};
use arrow::compute::{and, filter, is_not_null};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema};
use datafusion::common::{ExprSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, ExprSchemable, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column as PhysicalColumn, Literal};

/// The two functions that take the place of one with these arguments: of the state of its rows, and of merged states.
pub(super) fn state_and_merge(
    function: &Arc<AggregateUDF>,
    is_distinct: bool,
    arguments: &[Expr],
    schema: &dyn ExprSchema,
) -> Result<(AggregateUDF, AggregateUDF)> {
    let fields = arguments.iter().map(|argument| Ok(argument.to_field(schema)?.1));
    let fields = fields.collect::<Result<Vec<FieldRef>>>()?;
    let return_field = function.return_field(&fields)?;
    let state = function.state_fields(StateFieldsArgs {
        name: "state",
        input_fields: &fields,
        return_field: Arc::clone(&return_field),
        ordering_fields: &[],
        is_distinct,
    })?;
    let nullable = state.iter().map(|field| Arc::new(Field::clone(field).with_nullable(true)));
    let kind = DataType::Struct(nullable.collect());
    let literals = arguments.iter().map(|argument| match argument {
        Expr::Literal(value, _) => Some(value.clone()),
        _ => None,
    });
    let described = Described {
        function: Arc::clone(function),
        is_distinct,
        literals: literals.collect(),
        fields,
        return_field,
        kind,
    };
    let of_state = StateOf { signature: Signature::any(arguments.len(), Volatility::Immutable), of: described.clone() };
    let merge = MergeOf { signature: Signature::any(1, Volatility::Immutable), of: described };
    Ok((AggregateUDF::from(of_state), AggregateUDF::from(merge)))
}

/// A function with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Described {
    function: Arc<AggregateUDF>,
    is_distinct: bool,
    /// The arguments that are literals.
    literals: Vec<Option<ScalarValue>>,
    /// Of the arguments.
    fields: Vec<FieldRef>,
    return_field: FieldRef,
    /// What a state is.
    kind: DataType,
}

impl Described {
    fn state_fields(&self, name: &str) -> Result<Vec<FieldRef>> {
        self.function.state_fields(StateFieldsArgs {
            name,
            input_fields: &self.fields,
            return_field: Arc::clone(&self.return_field),
            ordering_fields: &[],
            is_distinct: self.is_distinct,
        })
    }

    /// The fields of a state.
    fn fields_of_state(&self) -> Fields {
        if let DataType::Struct(fields) = &self.kind { fields.clone() } else { Fields::empty() }
    }

    /// What the function is called with for its rows, where these are the arguments of what gives its state.
    fn of_rows<'a>(&self, arguments: &AccumulatorArgs<'a>) -> AccumulatorArgs<'a> {
        AccumulatorArgs { return_field: Arc::clone(&self.return_field), is_distinct: self.is_distinct, ..*arguments }
    }

    /// Calls `with` with the arguments of the function, of which a state has been made: it looks at their types and literals.
    fn with_arguments<T>(&self, name: &str, with: impl FnOnce(AccumulatorArgs<'_>) -> T) -> T {
        let schema = Schema::new(self.fields.clone());
        let expression = |(position, literal): (usize, &Option<ScalarValue>)| -> Arc<dyn PhysicalExpr> {
            match literal {
                Some(value) => Arc::new(Literal::new(value.clone())),
                None => Arc::new(PhysicalColumn::new(schema.field(position).name(), position)),
            }
        };
        let expressions: Vec<_> = self.literals.iter().enumerate().map(expression).collect();
        with(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name,
            is_distinct: self.is_distinct,
            exprs: &expressions,
            expr_fields: &self.fields,
        })
    }

    /// Whether its accumulator for all groups is taken: those of distinct values keep theirs one by one.
    fn is_by_groups(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !self.is_distinct && self.function.groups_accumulator_supported(arguments)
    }
}

/// The state of a function after its rows.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StateOf {
    signature: Signature,
    of: Described,
}

impl AggregateUDFImpl for StateOf {
    fn name(&self) -> &'static str {
        "state_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.of.kind.clone())
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let inner = self.of.function.accumulator(self.of.of_rows(&arguments))?;
        Ok(Box::new(StateAccumulator { inner, fields: self.of.fields_of_state() }))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.of.is_by_groups(self.of.of_rows(&arguments))
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let inner = self.of.function.create_groups_accumulator(self.of.of_rows(&arguments))?;
        Ok(Box::new(StateOfGroups { inner, fields: self.of.fields_of_state() }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.of.state_fields(arguments.name)
    }
}

#[derive(Debug)]
struct StateAccumulator {
    inner: Box<dyn Accumulator>,
    fields: Fields,
}

impl Accumulator for StateAccumulator {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(arrays)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let state = self.inner.state()?;
        let arrays = state.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
        Ok(ScalarValue::Struct(Arc::new(StructArray::try_new(self.fields.clone(), arrays, None)?)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// The states of a function for all groups at once.
struct StateOfGroups {
    inner: Box<dyn GroupsAccumulator>,
    fields: Fields,
}

impl GroupsAccumulator for StateOfGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, group_indices, opt_filter, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let states = self.inner.state(emit_to)?;
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), states, None)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.inner.merge_batch(states, group_indices, total_num_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// What a function is for the rows of several states.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MergeOf {
    signature: Signature,
    of: Described,
}

impl AggregateUDFImpl for MergeOf {
    fn name(&self) -> &'static str {
        "merge_of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.of.return_field.data_type().clone())
    }

    fn is_nullable(&self) -> bool {
        self.of.return_field.is_nullable()
    }

    fn accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let inner = self.of.with_arguments(arguments.name, |arguments| self.of.function.accumulator(arguments))?;
        Ok(Box::new(MergeAccumulator { inner }))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs) -> bool {
        self.of.with_arguments(arguments.name, |arguments| self.of.is_by_groups(arguments))
    }

    fn create_groups_accumulator(&self, arguments: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let function = &self.of.function;
        let inner =
            self.of.with_arguments(arguments.name, |arguments| function.create_groups_accumulator(arguments))?;
        Ok(Box::new(MergeOfGroups { inner }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.of.state_fields(arguments.name)
    }

    fn default_value(&self, kind: &DataType) -> Result<ScalarValue> {
        self.of.function.default_value(kind)
    }
}

#[derive(Debug)]
struct MergeAccumulator {
    inner: Box<dyn Accumulator>,
}

impl Accumulator for MergeAccumulator {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let Some(states) = arrays.first() else { return Ok(()) };
        let states = if states.null_count() > 0 { filter(states, &is_not_null(states)?)? } else { Arc::clone(states) };
        if states.is_empty() { Ok(()) } else { self.inner.merge_batch(states.as_struct().columns()) }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}

/// What a function is for the rows of several states of each group.
struct MergeOfGroups {
    inner: Box<dyn GroupsAccumulator>,
}

impl GroupsAccumulator for MergeOfGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let Some(states) = values.first() else { return Ok(()) };
        if opt_filter.is_none() && states.null_count() == 0 {
            return self.inner.merge_batch(states.as_struct().columns(), group_indices, total_num_groups);
        }
        let mut kept = is_not_null(states)?;
        if let Some(filter) = opt_filter {
            kept = and(&kept, filter)?;
        }
        let indices = group_indices.iter().zip(kept.iter()).filter(|(_, is_kept)| *is_kept == Some(true));
        let indices: Vec<usize> = indices.map(|(index, _)| *index).collect();
        let states = filter(states, &kept)?;
        self.inner.merge_batch(states.as_struct().columns(), &indices, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.inner.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.inner.merge_batch(states, group_indices, total_num_groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        match values.first() {
            // panes leave no state out, and what windows merge has no condition
            Some(states) if opt_filter.is_none() && states.null_count() == 0 => {
                Ok(states.as_struct().columns().to_vec())
            }
            _ => internal_err!("states that are left out cannot be handed on"),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }
}
