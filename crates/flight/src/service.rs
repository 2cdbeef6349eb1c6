//! The calls of Flight SQL.
//!
//! `GetFlightInfo` describes an answer and gives a ticket, `DoGet` answers the ticket. A ticket is the question itself, so the
//! service keeps nothing between the two; who calls is asked each time.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandStatementIngest, CommandStatementQuery, CommandStatementUpdate,
    DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightData, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage, SchemaAsIpc, Ticket,
};
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use prost::bytes::Bytes;
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};
use weir_sql::{Asker, QuestionService, Refusal, TableDescription};

use crate::answers::{Answer, RunningAnswers, Statement, cancel, describe, of_flight, one, tables};
use crate::bound_values;
use crate::counts::FlightCounts;
use crate::errors::{internal, status};
use crate::incoming::Caller;
use crate::metadata::{CATALOG, SCHEMA, SQL_INFO, TABLE_TYPE, TYPE_INFO};
use crate::options::FlightOptions;
use crate::prepared::{Prepared, PreparedStatements};
use crate::sessions::Sessions;

/// The action of clients that cancel by what they were told (Flight, not Flight SQL).
const CANCEL_FLIGHT_INFO: &str = "CancelFlightInfo";

type Given<T> = Result<Response<T>, Status>;
type Data = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Answers the calls of Flight SQL.
pub(crate) struct FlightSql {
    sessions: Sessions,
    prepared: PreparedStatements,
    running: RunningAnswers,
    counts: Arc<FlightCounts>,
    rows_max: u64,
}

impl FlightSql {
    pub(crate) fn new(service: Arc<dyn QuestionService>, options: &FlightOptions, counts: Arc<FlightCounts>) -> Self {
        Self {
            sessions: Sessions::new(service, Arc::clone(&counts), options.session_length.duration()),
            prepared: PreparedStatements::new(options.prepared_max, Arc::clone(&counts)),
            running: RunningAnswers::default(),
            counts,
            rows_max: options.rows_max,
        }
    }

    async fn asker<T>(&self, request: &Request<T>) -> Result<Arc<dyn Asker>, Status> {
        let caller = request.extensions().get::<Caller>();
        // connections always say it
        let from = caller.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |caller| caller.from.ip());
        let asker = self.sessions.asker(request.metadata(), from).await?;
        let name = asker.name();
        // without users everybody is "this machine", who takes no place of another
        let user = self.sessions.has_users().then_some(name);
        if caller.is_some_and(|caller| !caller.admit(user, &self.counts)) {
            return Err(Status::resource_exhausted(format!(
                "too many connections of '{name}'\nhint: 'per_user_max' of [flight] says how many there may be"
            )));
        }
        Ok(asker)
    }

    fn failed(&self, refusal: &Refusal) -> Status {
        self.counts.statements_failed.add_one();
        status(refusal)
    }

    /// The answer to a statement, as messages.
    #[expect(clippy::unnecessary_wraps, reason = "what the methods of the trait give back")]
    fn answer(&self, asker: &Arc<dyn Asker>, statement: Prepared, handle: Vec<u8>) -> Given<Data> {
        let Prepared { text, values, columns } = statement;
        let statement = Statement { text, values, handle, rows_max: self.rows_max };
        let answer = Answer::start(asker, statement, &self.running, &self.counts);
        Ok(Response::new(encoded(answer, Some(columns))))
    }

    async fn tables(&self, asker: &Arc<dyn Asker>) -> Result<Vec<TableDescription>, Status> {
        tables(asker).await.map_err(|refusal| status(&refusal))
    }
}

/// Batches as messages.
fn encoded(
    batches: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
    schema: Option<SchemaRef>,
) -> Data {
    let builder = FlightDataEncoderBuilder::new();
    let builder = match schema {
        Some(schema) => builder.with_schema(schema),
        None => builder,
    };
    Box::pin(builder.build(batches).map_err(of_flight))
}

/// One batch as messages.
#[expect(clippy::unnecessary_wraps, reason = "what the methods of the trait give back")]
fn whole(schema: SchemaRef, batch: Result<RecordBatch, FlightError>) -> Given<Data> {
    Ok(Response::new(encoded(one(batch), Some(schema))))
}

/// What is said of an answer before it is asked for: its columns, and the ticket that asks for it.
fn info(schema: &Schema, ticket: Vec<u8>, request: Request<FlightDescriptor>) -> Given<FlightInfo> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket::new(ticket));
    let info = FlightInfo::new().try_with_schema(schema).map_err(internal)?;
    Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(request.into_inner())))
}

/// A schema as it is within other messages.
fn schema_octets(schema: &Schema) -> Result<Bytes, Status> {
    let message: IpcMessage = SchemaAsIpc::new(schema, &IpcWriteOptions::default())
        .try_into()
        .map_err(|error: arrow::error::ArrowError| internal(error))?;
    Ok(message.0)
}

fn nothing_to_change() -> Status {
    Status::permission_denied("only questions are answered\nhint: write one statement that reads")
}

fn missing() -> Status {
    Status::internal("the description of the service is missing")
}

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = Self;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Given<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>> {
        let asker = self.asker(&request).await?;
        let token = self.sessions.begin(asker)?;
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into_bytes().into() };
        let stream: Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>> =
            Box::pin(futures::stream::iter([Ok(answer)]));
        let mut response = Response::new(stream);
        let header = MetadataValue::try_from(format!("Bearer {token}")).map_err(internal)?;
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        let asker = self.asker(&request).await?;
        let (columns, parameters) = describe(&asker, &query.query).await.map_err(|refusal| self.failed(&refusal))?;
        if !parameters.is_empty() {
            let message = "the statement has parameters\nhint: prepare it";
            return Err(Status::invalid_argument(message));
        }
        let ticket = TicketStatementQuery { statement_handle: query.query.into_bytes().into() };
        info(&columns, ticket.as_any().encode_to_vec(), request)
    }

    async fn do_get_statement(&self, ticket: TicketStatementQuery, request: Request<Ticket>) -> Given<Data> {
        let asker = self.asker(&request).await?;
        let handle = ticket.statement_handle.to_vec();
        let text =
            String::from_utf8(handle.clone()).map_err(|_| Status::invalid_argument("the ticket is no statement"))?;
        let statement = Statement { text, values: Vec::new(), handle, rows_max: self.rows_max };
        let answer = Answer::start(&asker, statement, &self.running, &self.counts);
        // columns come with the first batch; an answer without rows has none, so they are asked for
        let mut answer = Box::pin(answer);
        match answer.next().await {
            Some(Ok(first)) => {
                let schema = first.schema();
                let rest = futures::stream::iter([Ok(first)]).chain(answer);
                Ok(Response::new(encoded(rest, Some(schema))))
            }
            Some(Err(error)) => Err(of_flight(error)),
            None => {
                let text = String::from_utf8_lossy(&ticket.statement_handle).into_owned();
                let (columns, _) = describe(&asker, &text).await.map_err(|refusal| self.failed(&refusal))?;
                Ok(Response::new(encoded(futures::stream::empty(), Some(columns))))
            }
        }
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let asker = self.asker(&request).await?;
        let (columns, parameters) = describe(&asker, &query.query).await.map_err(|refusal| self.failed(&refusal))?;
        let dataset_schema = schema_octets(&columns)?;
        let parameter_schema = schema_octets(&Schema::new(parameters))?;
        let statement = Prepared { text: query.query, columns, values: Vec::new() };
        let handle = self.prepared.keep(asker.name(), statement)?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle.into(),
            dataset_schema,
            parameter_schema,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let asker = self.asker(&request).await?;
        self.prepared.close(asker.name(), &query.prepared_statement_handle);
        Ok(())
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let asker = self.asker(&request).await?;
        // whose handle it is comes before what is read for it
        self.prepared.check(asker.name(), &query.prepared_statement_handle)?;
        let values = bound_values::read(request.into_inner().into_peekable()).await?;
        self.prepared.bind(asker.name(), &query.prepared_statement_handle, values)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(query.prepared_statement_handle) })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        let asker = self.asker(&request).await?;
        let statement = self.prepared.get(asker.name(), &query.prepared_statement_handle)?;
        info(&statement.columns, query.as_any().encode_to_vec(), request)
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Given<Data> {
        let asker = self.asker(&request).await?;
        let statement = self.prepared.get(asker.name(), &query.prepared_statement_handle)?;
        self.answer(&asker, statement, query.prepared_statement_handle.to_vec())
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let asker = self.asker(&request).await?;
        let info = FlightInfo::decode(&*query.info).map_err(|error| Status::invalid_argument(error.to_string()))?;
        let is_cancelled = self.cancelled(asker.name(), &info);
        // 1: cancelled, 3: it cannot be
        Ok(ActionCancelQueryResult { result: if is_cancelled { 1 } else { 3 } })
    }

    async fn do_action_fallback(&self, request: Request<Action>) -> Given<<Self as FlightService>::DoActionStream> {
        let asker = self.asker(&request).await?;
        let action = request.into_inner();
        if action.r#type != CANCEL_FLIGHT_INFO {
            return Err(Status::invalid_argument(format!("there is no action '{}'", action.r#type.escape_debug())));
        }
        let wrong = |error: prost::DecodeError| Status::invalid_argument(error.to_string());
        let asked = CancelFlightInfoRequest::decode(&*action.body).map_err(wrong)?;
        let is_cancelled = asked.info.is_some_and(|info| self.cancelled(asker.name(), &info));
        let status = if is_cancelled { CancelStatus::Cancelled } else { CancelStatus::NotCancellable };
        let body = CancelFlightInfoResult::new(status).encode_to_vec();
        Ok(Response::new(Box::pin(futures::stream::iter([Ok(arrow_flight::Result::new(body))]))))
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        let ticket = query.as_any().encode_to_vec();
        info(&query.into_builder().schema(), ticket, request)
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        let mut builder = query.into_builder();
        builder.append(CATALOG);
        whole(builder.schema(), builder.build())
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        let ticket = query.as_any().encode_to_vec();
        info(&query.into_builder().schema(), ticket, request)
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        let mut builder = query.into_builder();
        builder.append(CATALOG, SCHEMA);
        whole(builder.schema(), builder.build())
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        let ticket = query.as_any().encode_to_vec();
        info(&query.into_builder().schema(), ticket, request)
    }

    async fn do_get_tables(&self, query: CommandGetTables, request: Request<Ticket>) -> Given<Data> {
        let asker = self.asker(&request).await?;
        let mut builder = query.into_builder();
        for table in self.tables(&asker).await? {
            let fields: Vec<_> = table.columns.iter().map(|column| Arc::clone(&column.field)).collect();
            let appended = builder.append(CATALOG, SCHEMA, &table.name, TABLE_TYPE, &Schema::new(fields));
            appended.map_err(of_flight)?;
        }
        whole(builder.schema(), builder.build())
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        let ticket = query.as_any().encode_to_vec();
        info(&query.into_builder().schema(), ticket, request)
    }

    async fn do_get_table_types(&self, query: CommandGetTableTypes, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        let mut builder = query.into_builder();
        builder.append(TABLE_TYPE);
        whole(builder.schema(), builder.build())
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        let ticket = query.as_any().encode_to_vec();
        let known = SQL_INFO.as_ref().ok_or_else(missing)?;
        info(&query.into_builder(known).schema(), ticket, request)
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        let builder = query.into_builder(SQL_INFO.as_ref().ok_or_else(missing)?);
        whole(builder.schema(), builder.build())
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        query: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        let ticket = query.as_any().encode_to_vec();
        let known = TYPE_INFO.as_ref().ok_or_else(missing)?;
        info(&query.into_builder(known).schema(), ticket, request)
    }

    async fn do_get_xdbc_type_info(&self, query: CommandGetXdbcTypeInfo, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        let builder = query.into_builder(TYPE_INFO.as_ref().ok_or_else(missing)?);
        whole(builder.schema(), builder.build())
    }

    async fn get_flight_info_primary_keys(
        &self,
        query: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        info(&keys::primary(), query.as_any().encode_to_vec(), request)
    }

    async fn do_get_primary_keys(&self, _query: CommandGetPrimaryKeys, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        none(keys::primary())
    }

    async fn get_flight_info_exported_keys(
        &self,
        query: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        info(&keys::foreign(), query.as_any().encode_to_vec(), request)
    }

    async fn do_get_exported_keys(&self, _query: CommandGetExportedKeys, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        none(keys::foreign())
    }

    async fn get_flight_info_imported_keys(
        &self,
        query: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        info(&keys::foreign(), query.as_any().encode_to_vec(), request)
    }

    async fn do_get_imported_keys(&self, _query: CommandGetImportedKeys, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        none(keys::foreign())
    }

    async fn get_flight_info_cross_reference(
        &self,
        query: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Given<FlightInfo> {
        self.asker(&request).await?;
        info(&keys::foreign(), query.as_any().encode_to_vec(), request)
    }

    async fn do_get_cross_reference(&self, _query: CommandGetCrossReference, request: Request<Ticket>) -> Given<Data> {
        self.asker(&request).await?;
        none(keys::foreign())
    }

    async fn do_put_statement_update(
        &self,
        _query: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        self.asker(&request).await?;
        Err(nothing_to_change())
    }

    async fn do_put_statement_ingest(
        &self,
        _query: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        self.asker(&request).await?;
        Err(nothing_to_change())
    }

    /// Nothing registers information here: it is always the same.
    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}

impl FlightSql {
    /// Cancels what the tickets of a description ask for.
    fn cancelled(&self, user: &str, info: &FlightInfo) -> bool {
        let handles = info.endpoint.iter().filter_map(|endpoint| handle_of(endpoint.ticket.as_ref()?));
        // each of them is cancelled
        let is_cancelled = handles.filter(|handle| cancel(&self.running, user, handle)).count() > 0;
        let counts = &self.counts;
        if is_cancelled {
            counts.cancels.add_one();
        } else {
            counts.cancels_unknown.add_one();
        }
        is_cancelled
    }
}

/// The handle of a statement, of the ticket that asks for it.
fn handle_of(ticket: &Ticket) -> Option<Vec<u8>> {
    let any = arrow_flight::sql::Any::decode(&*ticket.ticket).ok()?;
    if let Ok(Some(statement)) = any.unpack::<TicketStatementQuery>() {
        return Some(statement.statement_handle.to_vec());
    }
    let prepared = any.unpack::<CommandPreparedStatementQuery>().ok()??;
    Some(prepared.prepared_statement_handle.to_vec())
}

/// An answer without rows.
#[expect(clippy::unnecessary_wraps, reason = "what the methods of the trait give back")]
fn none(schema: Schema) -> Given<Data> {
    let schema: SchemaRef = Arc::new(schema);
    Ok(Response::new(encoded(futures::stream::empty(), Some(schema))))
}

/// Columns of answers about keys, of which there are none (Flight SQL's description of these commands).
mod keys {
    use arrow::datatypes::{DataType, Field, Schema};

    pub(super) fn primary() -> Schema {
        Schema::new(vec![
            Field::new("catalog_name", DataType::Utf8, true),
            Field::new("db_schema_name", DataType::Utf8, true),
            Field::new("table_name", DataType::Utf8, false),
            Field::new("column_name", DataType::Utf8, false),
            Field::new("key_name", DataType::Utf8, true),
            Field::new("key_sequence", DataType::Int32, false),
        ])
    }

    pub(super) fn foreign() -> Schema {
        let side = |side: &str| {
            vec![
                Field::new(format!("{side}_catalog_name"), DataType::Utf8, true),
                Field::new(format!("{side}_db_schema_name"), DataType::Utf8, true),
                Field::new(format!("{side}_table_name"), DataType::Utf8, false),
                Field::new(format!("{side}_column_name"), DataType::Utf8, false),
            ]
        };
        let mut fields = [side("pk"), side("fk")].concat();
        fields.push(Field::new("key_sequence", DataType::Int32, false));
        fields.push(Field::new("fk_key_name", DataType::Utf8, true));
        fields.push(Field::new("pk_key_name", DataType::Utf8, true));
        fields.push(Field::new("update_rule", DataType::UInt8, false));
        fields.push(Field::new("delete_rule", DataType::UInt8, false));
        Schema::new(fields)
    }
}
