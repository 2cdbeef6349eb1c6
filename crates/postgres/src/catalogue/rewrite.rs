//! Statements about the catalogue, as the engine takes them.
//!
//! Tools write them for Postgres: names with `pg_catalog` before functions and operators, casts to types that are names of
//! rows, subqueries for each row. These become what the engine knows, with the same answer.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArguments, GroupByExpr, Ident, Join, JoinOperator,
    ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    TableFactor, Value, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use weir_sql::{Reason, Refusal};

use super::functions::regclass;
use super::input::{CATALOG_OID, CatalogueInput, INFORMATION, PUBLIC_OID};
use super::{information, relations};
use crate::kinds::PgKind;

/// The statement as the engine takes it. One that cannot be parsed here is left to the engine, which says what is wrong.
pub(super) fn rewritten<'a>(text: &'a str, input: &CatalogueInput) -> Result<Cow<'a, str>, Refusal> {
    let Ok(mut statements) = Parser::parse_sql(&PostgreSqlDialect {}, text) else { return Ok(Cow::Borrowed(text)) };
    let [statement @ (Statement::Query(_) | Statement::Explain { .. })] = statements.as_mut_slice() else {
        return Ok(Cow::Borrowed(text));
    };
    match VisitMut::visit(statement, &mut Rewriter { input }) {
        ControlFlow::Continue(()) => Ok(Cow::Owned(statement.to_string())),
        ControlFlow::Break(refusal) => Err(refusal),
    }
}

struct Rewriter<'a> {
    input: &'a CatalogueInput,
}

impl VisitorMut for Rewriter<'_> {
    type Break = Refusal;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Refusal> {
        if let SetExpr::Select(select) = query.body.as_mut() {
            expand_wildcards(select);
            name_items(select);
        }
        if without_rows(&mut query.body) {
            query.order_by = None;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<Refusal> {
        let parts = names(relation);
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        // a database before the schema is ours
        let parts = if parts.len() == 3 { &parts[1..] } else { &parts[..] };
        *relation = match parts {
            ["information_schema", name] => named(&[INFORMATION, name]),
            [name] if name.starts_with("pg_") && columns_of(name).is_some() => named(&["pg_catalog", name]),
            [schema, name] => named(&[schema, name]),
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Refusal> {
        if let Some(value) = of_nothing(expression) {
            *expression = value;
        } else if let Expr::Subquery(query) = expression {
            single_value(query);
        } else if let Some(list) = in_search_path(expression, self.input) {
            *expression = list;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Refusal> {
        match expression {
            Expr::Function(function) => {
                unqualified(function);
                if let Some(length) = bound_of_schemas(function) {
                    *expression = number(length);
                }
            }
            Expr::BinaryOp { left, op, right } => {
                if is_function_column(left) && matches!(right.as_ref(), Expr::Value(value) if value.to_string() == "0")
                {
                    **right = Expr::value(Value::SingleQuotedString("0".to_owned()));
                }
                if let BinaryOperator::PGCustomBinaryOperator(parts) = op
                    && let Some(plain) = parts.last().and_then(|sign| operator(sign))
                {
                    *op = plain;
                }
            }
            Expr::Value(value) => {
                if let Value::EscapedStringLiteral(text) = &value.value {
                    value.value = Value::SingleQuotedString(text.clone());
                }
            }
            Expr::Collate { expr, .. } => *expression = std::mem::replace(expr, null()),
            Expr::Cast { expr, data_type, kind, .. } => {
                let (inner, name) = (std::mem::replace(expr.as_mut(), null()), type_name(data_type));
                *expression = match cast_to(inner, &name, data_type, kind, self.input) {
                    Ok(expression) => expression,
                    Err(refusal) => return ControlFlow::Break(refusal),
                };
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn null() -> Expr {
    Expr::value(Value::Null)
}

fn named(parts: &[&str]) -> ObjectName {
    ObjectName(parts.iter().map(|part| ObjectNamePart::Identifier(Ident::new(*part))).collect())
}

/// The parts of a name, in lower case unless they are quoted.
fn names(name: &ObjectName) -> Vec<String> {
    let text =
        |ident: &Ident| if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() };
    name.0.iter().filter_map(|part| part.as_ident()).map(text).collect()
}

/// A function without its schema.
fn unqualified(function: &mut Function) {
    let parts = names(&function.name);
    if let [schema, name] = parts.as_slice()
        && (schema == "pg_catalog" || schema == "information_schema")
    {
        function.name = named(&[name]);
    }
}

/// The bounds of the list of schemas: pgjdbc counts up to them with `generate_series`, which takes numbers only.
fn bound_of_schemas(function: &Function) -> Option<i64> {
    let text = function.to_string().to_lowercase();
    if text.starts_with("array_lower(current_schemas(") {
        Some(1)
    } else if text.starts_with("array_upper(current_schemas(") {
        Some(2)
    } else {
        None
    }
}

/// `schema IN (SELECT ...)` over the schemas of the search path, as Grafana asks for each of them by its number, as a list.
fn in_search_path(expression: &mut Expr, input: &CatalogueInput) -> Option<Expr> {
    let Expr::InSubquery { expr, subquery, negated } = expression else { return None };
    let text = subquery.to_string().to_lowercase();
    if !(text.contains("generate_series(") && text.contains("current_setting('search_path')")) {
        return None;
    }
    let path = input.session.settings.iter().find(|(name, _)| *name == "search_path").map(|(_, path)| path.as_str());
    let schemas = path.unwrap_or("public").split(',').map(|schema| schema.trim().trim_matches('"'));
    let schemas = schemas.map(|schema| if schema == "$user" { input.session.user.as_str() } else { schema });
    let list = schemas.map(|schema| Expr::value(Value::SingleQuotedString(schema.to_owned()))).collect();
    let expr = Box::new(std::mem::replace(expr.as_mut(), null()));
    Some(Expr::InList { expr, list, negated: *negated })
}

/// Whether an expression is a column of `pg_type` that names a function: Postgres has numbers there.
fn is_function_column(expression: &Expr) -> bool {
    let last = match expression {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    last.is_some_and(|name| ["typinput", "typoutput", "typreceive", "typsend"].contains(&name.value.as_str()))
}

fn operator(sign: &str) -> Option<BinaryOperator> {
    Some(match sign {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        ">" => BinaryOperator::Gt,
        "+" => BinaryOperator::Plus,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

fn type_name(data_type: &DataType) -> String {
    let text = data_type.to_string().to_lowercase().replace('"', "");
    text.strip_prefix("pg_catalog.").map_or(text.clone(), str::to_owned)
}

fn number(value: i64) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

fn call(name: &str, argument: &Expr) -> Expr {
    let text = format!("{name}({argument})");
    // a call of one of our functions with what was an expression already
    Parser::new(&PostgreSqlDialect {})
        .try_with_sql(&text)
        .and_then(|mut parser| parser.parse_expr())
        .unwrap_or_else(|_| null())
}

fn cast_to(
    inner: Expr,
    name: &str,
    data_type: &DataType,
    kind: &CastKind,
    input: &CatalogueInput,
) -> Result<Expr, Refusal> {
    let text = match &inner {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            Value::Number(digits, _) => Some(digits.clone()),
            _ => None,
        },
        _ => None,
    };
    let again = |data_type: DataType, inner: Expr| Expr::Cast {
        kind: kind.clone(),
        expr: Box::new(inner),
        data_type,
        array: false,
        format: None,
    };
    Ok(match (name, text) {
        ("regclass", Some(text)) => number(
            regclass(&text, input)
                .ok_or_else(|| Refusal::new(Reason::UnknownTable, format!("no table '{}'", text.escape_debug())))?,
        ),
        ("regclass", None) if matches!(&inner, Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) => {
            call("weir_regclass_oid", &inner)
        }
        ("regclass", None) => call("weir_regclass_name", &inner),
        ("regtype", Some(text)) => {
            number(PgKind::by_name(&text.to_lowercase()).map_or(0, |kind| i64::from(kind.oid())))
        }
        ("regtype", None) => call("weir_regtype_name", &inner),
        ("regnamespace", Some(text)) => number(match text.as_str() {
            "pg_catalog" => CATALOG_OID,
            "public" => PUBLIC_OID,
            _ => 0,
        }),
        ("regproc" | "regprocedure", Some(text)) => {
            let name = text.strip_prefix("pg_catalog.").unwrap_or(&text).to_owned();
            Expr::value(Value::SingleQuotedString(name))
        }
        ("oid" | "xid" | "int8" | "int4" | "int2" | "integer" | "int" | "bigint" | "smallint", _) => {
            again(DataType::BigInt(None), inner)
        }
        (
            "regproc"
            | "regprocedure"
            | "regrole"
            | "regnamespace"
            | "name"
            | "text"
            | "char"
            | "bpchar"
            | "varchar"
            | "character varying"
            | "unknown"
            | "cstring"
            | "information_schema.sql_identifier"
            | "information_schema.character_data",
            _,
        ) => again(DataType::Text, inner),
        ("text[]" | "name[]" | "varchar[]" | "oid[]" | "int2[]" | "int2vector" | "oidvector", _) => inner,
        _ => again(data_type.clone(), inner),
    })
}

/// What a subquery about relations that never have a row is; `None` for other expressions.
fn of_nothing(expression: &Expr) -> Option<Expr> {
    match expression {
        Expr::Subquery(query) if is_of_nothing(query) => Some(null()),
        Expr::Exists { subquery, negated } if is_of_nothing(subquery) => Some(Expr::value(Value::Boolean(*negated))),
        Expr::Function(Function { args: FunctionArguments::Subquery(query), .. }) if is_of_nothing(query) => {
            Some(null())
        }
        _ => None,
    }
}

/// Makes SELECTs that have no rows, whatever they ask for, ask for nothing: what they say about rows may be something that the engine
/// does not know. True when all of them have none.
fn without_rows(body: &mut SetExpr) -> bool {
    match body {
        SetExpr::Select(select) if has_no_rows(select) => {
            let mut taken = HashMap::new();
            for item in &mut select.projection {
                match item {
                    SelectItem::ExprWithAlias { expr, .. } => *expr = null(),
                    SelectItem::UnnamedExpr(column) => {
                        let found = name_of(column).or_else(|| column_name(column));
                        let name = unique(found.unwrap_or_default(), &mut taken);
                        *item = SelectItem::ExprWithAlias { expr: null(), alias: Ident::with_quote('"', name) };
                    }
                    _ => {}
                }
            }
            select.selection = Some(Expr::value(Value::Boolean(false)));
            select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
            select.having = None;
            true
        }
        SetExpr::SetOperation { left, right, .. } => {
            let sides = (without_rows(left), without_rows(right));
            sides.0 && sides.1
        }
        SetExpr::Query(query) => without_rows(&mut query.body),
        _ => false,
    }
}

/// Whether a SELECT has a row for each group, and none without rows.
fn groups(select: &Select) -> bool {
    !matches!(&select.group_by, GroupByExpr::Expressions(expressions, _) if expressions.is_empty())
}

/// Whether a query has no rows, whatever is asked.
fn is_of_nothing(query: &Query) -> bool {
    matches!(query.body.as_ref(), SetExpr::Select(select) if has_no_rows(select))
}

/// Whether a SELECT has no rows: its relations are joined with one that has none.
fn has_no_rows(select: &Select) -> bool {
    let is_aggregated = select.projection.iter().any(|item| {
        let text = item.to_string().to_lowercase();
        let text = text.split("(select").next().unwrap_or_default();
        ["count(", "max(", "min(", "sum(", "string_agg(", "array_agg("].iter().any(|call| text.contains(call))
    });
    let is_empty = |factor: &TableFactor| match factor {
        TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => {
            names(name).last().is_some_and(|name| name == "unnest")
        }
        TableFactor::UNNEST { .. } => true,
        TableFactor::Derived { subquery, .. } => is_of_nothing(subquery),
        TableFactor::Table { name, .. } => names(name).last().is_some_and(|name| relations::is_empty(name)),
        _ => false,
    };
    let is_inner = |join: &Join| matches!(join.join_operator, JoinOperator::Join(_) | JoinOperator::Inner(_));
    let mut relations = select.from.iter().flat_map(|table| {
        let joined = table.joins.iter().filter(|join| is_inner(join)).map(|join| &join.relation);
        std::iter::once(&table.relation).chain(joined)
    });
    (!is_aggregated || groups(select)) && relations.any(is_empty)
}

/// Makes a subquery that gives one value for each row one that the engine can join: the largest of its values, of which there
/// is one.
fn single_value(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let is_of_catalogue = select.from.iter().any(|table| match &table.relation {
        TableFactor::Table { name, .. } => names(name).last().is_some_and(|name| columns_of(name).is_some()),
        _ => false,
    });
    if !is_of_catalogue || select.selection.is_none() || select.projection.len() != 1 {
        return;
    }
    let (SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }) = &mut select.projection[0]
    else {
        return;
    };
    let text = value.to_string().to_lowercase();
    if !["count(", "max(", "min(", "sum(", "agg("].iter().any(|call| text.contains(call)) {
        let inner = std::mem::replace(value, null());
        *value = call("max", &inner);
        query.limit_clause = None;
        query.order_by = None;
    }
}

/// Writes out `c.*` next to `c.oid`: the engine has no two columns of one name.
fn expand_wildcards(select: &mut Select) {
    let mut relations: HashMap<String, Vec<&'static str>> = HashMap::new();
    let joined = select
        .from
        .iter()
        .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)));
    for factor in joined {
        if let TableFactor::Table { name, alias, .. } = factor
            && let Some(table) = names(name).last()
            && let Some(columns) = columns_of(table)
        {
            let alias = alias.as_ref().map_or_else(|| table.clone(), |alias| alias.name.value.to_lowercase());
            relations.insert(alias, columns);
        }
    }
    let listed: HashSet<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                Some(parts.iter().map(|part| part.value.to_lowercase()).collect::<Vec<_>>().join("."))
            }
            _ => None,
        })
        .collect();
    let expanded = std::mem::take(&mut select.projection).into_iter().flat_map(|item| {
        let alias = match &item {
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                names(name).last().cloned()
            }
            _ => None,
        };
        let Some((alias, columns)) = alias.and_then(|alias| relations.get_key_value(&alias)) else { return vec![item] };
        let column = |column: &&'static str| !listed.contains(&format!("{alias}.{column}"));
        let item = |column: &'static str| {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![Ident::new(alias.clone()), Ident::new(column)]))
        };
        columns.iter().copied().filter(column).map(item).collect()
    });
    select.projection = expanded.collect();
}

/// Names items as Postgres does: a call by its function, a cast by its column.
fn name_items(select: &mut Select) {
    let mut taken = HashMap::new();
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expression) = item else { continue };
        let Some(name) = name_of(expression) else { continue };
        let name = unique(name, &mut taken);
        let expr = std::mem::replace(expression, null());
        *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
    }
}

/// A name that no item before it has: the engine has no two columns of one name.
fn unique(name: String, taken: &mut HashMap<String, usize>) -> String {
    let times = taken.entry(name.clone()).or_default();
    *times += 1;
    if *times == 1 { name } else { format!("{name}_{times}") }
}

/// The name of a column.
fn column_name(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(name) => Some(name.value.to_lowercase()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.to_lowercase()),
        _ => None,
    }
}

/// `None` for a column, which has a name.
fn name_of(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => None,
        Expr::Function(function) => names(&function.name).pop(),
        Expr::Cast { expr, data_type, .. } => match expr.as_ref() {
            Expr::Identifier(column) => Some(column.value.clone()),
            Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.clone()),
            Expr::Value(_) => Some(type_name(data_type)),
            other => name_of(other),
        },
        Expr::Case { .. } => Some("case".to_owned()),
        Expr::Exists { .. } => Some("exists".to_owned()),
        Expr::Collate { expr, .. } | Expr::Nested(expr) => name_of(expr),
        _ => Some("?column?".to_owned()),
    }
}

/// The columns of the relations that a name may mean in a statement.
fn columns_of(name: &str) -> Option<Vec<&'static str>> {
    let known = relations::COLUMNS.iter().chain(information::COLUMNS).find(|(known, _)| *known == name);
    let name_of = |column: &'static str| column.split(':').next().unwrap_or(column);
    known.map(|(_, columns)| columns.split_whitespace().map(name_of).collect())
}
