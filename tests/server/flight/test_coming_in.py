"""Who comes in over Flight SQL, and who does not."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from adbc_driver_flightsql import DatabaseOptions, dbapi
from pyarrow import flight

from livingdb.server.flight.server import FlightServer


def _names(connection: Any) -> list[Any]:
    with connection, connection.cursor() as cursor:
        return [row[0] for row in cursor.execute("SELECT name FROM customers").fetchall()]


def test_by_a_token(shop: Any) -> None:
    assert _names(shop.connect("ann")) == ["Ann", "Bjørn"]


def test_by_a_name_with_a_token_as_password(shop: Any) -> None:
    given = {"username": "ben", "password": shop.tokens["ben"]}
    assert _names(dbapi.connect(shop.location, db_kwargs=given)) == ["Ann", "Bjørn"]
    with flight.connect(shop.location) as client:
        header = client.authenticate_basic_token("ben", shop.tokens["ben"])
        assert header == (b"authorization", f"Bearer {shop.tokens['ben']}".encode())


@pytest.mark.parametrize(
    "given",
    [
        {},
        {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer ldb_nobody_nothing"},
        {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer "},
        {DatabaseOptions.AUTHORIZATION_HEADER.value: "Negotiate abc"},
        {DatabaseOptions.AUTHORIZATION_HEADER.value: "Basic !!!"},
        {"username": "ann", "password": "wrong"},
    ],
)
def test_nobody_else(shop: Any, given: dict[str, str]) -> None:
    with pytest.raises(dbapi.Error, match=r"UNAUTHENTICATED.*unauthenticated: "):
        _names(dbapi.connect(shop.location, db_kwargs=given, autocommit=True))


def test_not_with_the_token_of_somebody_else(shop: Any) -> None:
    given = {"username": "ann", "password": shop.tokens["ben"]}
    with pytest.raises(dbapi.Error, match="not one of this user"):
        _names(dbapi.connect(shop.location, db_kwargs=given))


def test_no_longer_once_a_token_is_revoked(shop: Any) -> None:
    secret = shop.db.people.issue_token("ben", note="short")
    given = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {secret}"}
    with dbapi.connect(shop.location, db_kwargs=given, autocommit=True) as connection:
        assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
        token = next(one for one in shop.db.people.tokens("ben") if one.note == "short")
        shop.db.people.revoke(token.id)
        with pytest.raises(dbapi.Error, match="UNAUTHENTICATED"):
            connection.adbc_get_table_types()


def test_rights_are_those_of_who_comes_in(shop: Any) -> None:
    with shop.connect("ben", autocommit=True) as connection, connection.cursor() as cursor:
        with pytest.raises(dbapi.Error, match=r"UNAUTHORIZED.*forbidden: "):
            cursor.execute("INSERT INTO customers VALUES (9, 'Eve')")
        shop.db.branch("main").clone("secret")
        with pytest.raises(dbapi.Error, match="NOT_FOUND"):
            cursor.execute("SELECT * FROM secret.customers")
        objects = connection.adbc_get_objects(depth="catalogs").read_all().to_pylist()
        assert [row["catalog_name"] for row in objects] == ["main"]


def test_what_is_committed_is_by_who_comes_in(shop: Any) -> None:
    with shop.connect("ann", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO customers VALUES (100, 'Cleo')")
        cursor.execute("DELETE FROM customers WHERE id = 100")
    assert [s.author for s in shop.db.branch("main").log(2)] == ["ann", "ann"]


def test_over_tls(shop: Any) -> None:
    certificate, key = _certificate()
    server = FlightServer(shop.db, "grpc+tls://localhost:0", certificates=[(certificate, key)])
    with server:
        given = {
            DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {shop.tokens['ben']}",
            DatabaseOptions.TLS_ROOT_CERTS.value: certificate.decode(),
        }
        connection = dbapi.connect(f"grpc+tls://localhost:{server.port}", db_kwargs=given)
        assert _names(connection) == ["Ann", "Bjørn"]


def _certificate() -> tuple[bytes, bytes]:
    """A certificate for localhost that vouches for itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=365 * 100))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return made.public_bytes(pem), private
