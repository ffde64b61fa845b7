"""The messages of Flight SQL, made at run time from the numbers of their fields.

A line names a message and its fields: `name type number`.  A type that ends in `?` may be absent
and known to be, one in `*` is repeated, `{}` is a map from texts, and `|` is one of several of
which one is there.  Enumerations are numbers on the wire, and are numbers here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from livingdb.errors import InvalidData, Unsupported

__all__ = ["new", "pack", "parse", "serialize", "unpack"]

_SQL = "arrow.flight.protocol.sql"
_FLIGHT = "arrow.flight.protocol"
_URL = "type.googleapis.com/"

_SQL_MESSAGES = """
CommandGetSqlInfo: info uint32* 1
CommandGetXdbcTypeInfo: data_type int32? 1
CommandGetCatalogs:
CommandGetDbSchemas: catalog string? 1, db_schema_filter_pattern string? 2
CommandGetTables: catalog string? 1, db_schema_filter_pattern string? 2, \
    table_name_filter_pattern string? 3, table_types string* 4, include_schema bool 5
CommandGetTableTypes:
CommandGetPrimaryKeys: catalog string? 1, db_schema string? 2, table string 3
CommandGetExportedKeys: catalog string? 1, db_schema string? 2, table string 3
CommandGetImportedKeys: catalog string? 1, db_schema string? 2, table string 3
CommandGetCrossReference: pk_catalog string? 1, pk_db_schema string? 2, pk_table string 3, \
    fk_catalog string? 4, fk_db_schema string? 5, fk_table string 6
CommandStatementQuery: query string 1, transaction_id bytes? 2
CommandStatementUpdate: query string 1, transaction_id bytes? 2
CommandPreparedStatementQuery: prepared_statement_handle bytes 1
CommandPreparedStatementUpdate: prepared_statement_handle bytes 1
TableDefinitionOptions: if_not_exist int32 1, if_exists int32 2
CommandStatementIngest: table_definition_options TableDefinitionOptions 1, table string 2, \
    schema string? 3, catalog string? 4, temporary bool 5, transaction_id bytes? 6, \
    options string{} 1000
TicketStatementQuery: statement_handle bytes 1
DoPutUpdateResult: record_count int64 1
DoPutPreparedStatementResult: prepared_statement_handle bytes? 1
ActionCreatePreparedStatementRequest: query string 1, transaction_id bytes? 2
ActionCreatePreparedStatementResult: prepared_statement_handle bytes 1, dataset_schema bytes 2, \
    parameter_schema bytes 3
ActionClosePreparedStatementRequest: prepared_statement_handle bytes 1
ActionBeginTransactionRequest:
ActionBeginTransactionResult: transaction_id bytes 1
ActionEndTransactionRequest: transaction_id bytes 1, action int32 2
ActionCancelQueryRequest: info bytes 1
ActionCancelQueryResult: result int32 1
"""

_FLIGHT_MESSAGES = """
CancelFlightInfoRequest: info bytes 1
CancelFlightInfoResult: status int32 1
StringListValue: values string* 1
SessionOptionValue: string_value string| 1, bool_value bool| 2, int64_value sfixed64| 3, \
    double_value double| 4, string_list_value StringListValue| 5
SetSessionOptionsRequest: session_options SessionOptionValue{} 1
OptionError: value int32 1
SetSessionOptionsResult: errors OptionError{} 1
GetSessionOptionsRequest:
GetSessionOptionsResult: session_options SessionOptionValue{} 1
CloseSessionRequest:
CloseSessionResult: status int32 1
"""
"""A `FlightInfo` within another message is read as bytes, which is what it is on the wire."""

_FIELD = descriptor_pb2.FieldDescriptorProto
_PLAIN = {
    "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
    "bool": _FIELD.TYPE_BOOL,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
    "uint32": _FIELD.TYPE_UINT32,
    "sfixed64": _FIELD.TYPE_SFIXED64,
    "double": _FIELD.TYPE_DOUBLE,
}


def new(name: str, **fields: Any) -> Any:
    """A message of that name."""
    return _classes()[name](**fields)


def serialize(name: str, **fields: Any) -> bytes:
    """A message as it is on the wire, where it comes without an envelope."""
    return bytes(new(name, **fields).SerializeToString())


def pack(name: str, **fields: Any) -> bytes:
    """A message as most calls take and give it: in an envelope that says what it is."""
    url = f"{_URL}{_SQL}.{name}"
    return bytes(any_pb2.Any(type_url=url, value=serialize(name, **fields)).SerializeToString())


def unpack(data: bytes) -> tuple[str, Any]:
    """The name of a message in its envelope, and the message."""
    envelope = any_pb2.Any()
    try:
        envelope.ParseFromString(data)
    except DecodeError:
        raise InvalidData("the request cannot be read: it is no message of Flight SQL") from None
    package, _, name = envelope.type_url.removeprefix(_URL).rpartition(".")
    if not name:
        raise InvalidData("the request cannot be read: it is no message of Flight SQL")
    if package != _SQL or name not in _classes():
        raise Unsupported(f"{name[:80]!r} is no request that is answered here")
    return name, parse(name, envelope.value)


def parse(name: str, data: bytes) -> Any:
    """A message that comes without an envelope."""
    message = new(name)
    try:
        message.ParseFromString(data)
    except DecodeError:
        raise InvalidData(f"the request cannot be read: it is no {name}") from None
    return message


@cache
def _classes() -> dict[str, type[Message]]:
    """Every message by its name; in a pool of their own, whatever else the process has loaded."""
    pool = descriptor_pool.DescriptorPool()
    found: dict[str, type[Message]] = {}
    for package, lines in ((_SQL, _SQL_MESSAGES), (_FLIGHT, _FLIGHT_MESSAGES)):
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{package}.proto", package=package, syntax="proto3"
        )
        for line in filter(None, lines.splitlines()):
            _add_message(file, line)
        pool.Add(file)
        for message in file.message_type:
            described = pool.FindMessageTypeByName(f"{package}.{message.name}")
            found[message.name] = message_factory.GetMessageClass(described)
    return found


def _add_message(file: descriptor_pb2.FileDescriptorProto, line: str) -> None:
    name, _, fields = line.partition(":")
    message = file.message_type.add(name=name)
    for text in filter(None, map(str.strip, fields.split(","))):
        field_name, kind, number = text.split()
        field = message.field.add(name=field_name, number=int(number))
        sign = kind[len(kind.rstrip("?*|{}")) :]
        if sign == "{}":
            _add_map_entry(message, field, kind.removesuffix(sign), file.package)
            continue
        _set_type(field, kind.removesuffix(sign), file.package)
        field.label = _FIELD.LABEL_REPEATED if sign == "*" else _FIELD.LABEL_OPTIONAL
        if sign == "?":
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field_name}")
        elif sign == "|":
            if not message.oneof_decl:
                message.oneof_decl.add(name="option_value")
            field.oneof_index = 0


def _add_map_entry(
    message: descriptor_pb2.DescriptorProto,
    field: descriptor_pb2.FieldDescriptorProto,
    kind: str,
    package: str,
) -> None:
    entry = message.nested_type.add(name=f"{field.name.title().replace('_', '')}Entry")
    entry.options.map_entry = True
    key = entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL)
    _set_type(key, "string", package)
    _set_type(value, kind, package)
    field.label = _FIELD.LABEL_REPEATED
    field.type = _FIELD.TYPE_MESSAGE
    field.type_name = f".{package}.{message.name}.{entry.name}"


def _set_type(field: descriptor_pb2.FieldDescriptorProto, kind: str, package: str) -> None:
    if kind in _PLAIN:
        field.type = _PLAIN[kind]
    else:
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f".{package}.{kind}"
