"""Stock Flight clients and the ways to a gateway: TLS, client certificates, Unix sockets."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager

import pyarrow.flight as flight
import pyarrow.parquet as pq
import pytest

from conftest import ROOT
from test_flight_clients import ids

TESTDATA = ROOT / "trainer-sidecar" / "testdata"
AUTHORITY, CERTIFICATE, KEY = (TESTDATA / name for name in ("authority.pem", "gateway.pem", "gateway.key"))
TLS = ("--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY))
# A stock client names a socket's path as the authority, which HTTP/2 does not allow.
OVER_A_SOCKET = {"generic_options": [("grpc.default_authority", "localhost")]}


@pytest.fixture
def gateway(binary, tmp_path):
    """`with gateway(FLAG, …) as location`: a gateway of a thousand rows called `d`."""
    pq.write_table(ids(1000), tmp_path / "d.parquet")

    @contextmanager
    def start(*flags: str, listen: str = "127.0.0.1:0"):
        command = [binary, "gateway", "--listen", listen, "--log", "error", "--dataset", f"d={tmp_path}/d.parquet"]
        process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline()
            if not line.startswith("listening on "):
                raise RuntimeError(process.stderr.read())
            yield line.removeprefix("listening on ").strip()
        finally:
            process.kill()
            process.communicate()

    return start


def read(location: str, **client):
    """The rows of `d`, and where it is said that they can be had."""
    with flight.FlightClient(location, **client) as connection:
        info = connection.get_flight_info(flight.FlightDescriptor.for_path("d"))
        [endpoint] = info.endpoints
        rows = connection.do_get(endpoint.ticket).read_all()
        return rows, [place.uri.decode() for place in endpoint.locations]


def test_rows_come_through_tls_to_those_who_trust_the_authority(gateway):
    with gateway(*TLS) as location:
        assert location.startswith("grpc+tls://127.0.0.1:")
        rows, told = read(location, tls_root_certs=AUTHORITY.read_bytes())
        assert rows == ids(1000) and told == [location]
        for distrust in ({}, {"tls_root_certs": b""}):
            with pytest.raises(flight.FlightUnavailableError):
                read(location, **distrust)
        with pytest.raises(flight.FlightUnavailableError):
            read(location.replace("grpc+tls://", "grpc://"))


def test_clients_without_a_certificate_are_not_served_where_one_is_asked_for(gateway):
    with gateway(*TLS, "--tls-client-ca", str(AUTHORITY)) as location:
        trust = {"tls_root_certs": AUTHORITY.read_bytes()}
        with pytest.raises(flight.FlightUnavailableError):
            read(location, **trust)
        own = {"cert_chain": CERTIFICATE.read_bytes(), "private_key": KEY.read_bytes()}
        assert read(location, **trust, **own)[0] == ids(1000)


def test_neighbours_are_told_of_the_socket_beside_the_port(gateway, tmp_path):
    path = tmp_path / "gateway.sock"
    with gateway("--unix-socket", str(path)) as location:
        rows, told = read(location)
        assert told == [location, f"grpc+unix://{path}", f"penstock+memfd://{path}"]
        assert rows == ids(1000)
        assert read(told[1], **OVER_A_SOCKET) == (rows, told)


def test_a_gateway_may_have_a_socket_alone(gateway, tmp_path):
    path = tmp_path / "gateway.sock"
    for _ in range(2):
        # The second one finds the file that the first, killed, left behind.
        with gateway(listen=f"unix:{path}") as location:
            assert read(location, **OVER_A_SOCKET) == (ids(1000), [f"grpc+unix://{path}", f"penstock+memfd://{path}"])
            with pytest.raises(RuntimeError, match="another gateway serves at"), gateway(listen=f"unix:{path}"):
                pass


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--tls-cert", str(CERTIFICATE)), "--tls-key"),
        (("--tls-cert", "absent.pem", "--tls-key", str(KEY)), "absent.pem"),
        (("--tls-cert", str(KEY), "--tls-key", str(KEY)), "no certificate"),
        (("--tls-cert", str(AUTHORITY), "--tls-key", str(KEY)), "authority.pem cannot be used"),
        (("--unix-socket", "/absent/gateway.sock"), "/absent/gateway.sock"),
    ],
)
def test_what_keeps_a_gateway_from_being_reached_is_said(gateway, flags, said):
    with pytest.raises(RuntimeError, match=said), gateway(*flags):
        pass
