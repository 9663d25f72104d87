"""What reaches the fault server is a whole request or is refused; nothing ends it."""

from __future__ import annotations

import http.client
import io
import os
import socket
from contextlib import suppress

import obstore
import pytest
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum
from hypothesis import given
from hypothesis import strategies as st

from siltstone.testing.s3server.http import BODY_BYTES_MAX, HEAD_BYTES_MAX, RequestParser
from siltstone.testing.s3server.messages import Refusal
from siltstone.testing.s3server.objects import Bucket


def send(s3, data: bytes) -> bytes:
    """Send raw bytes, end the sending side, and return whatever comes back."""
    with socket.create_connection(("127.0.0.1", s3.port), timeout=10) as connection:
        answer = b""
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionError:
            pass  # refused before all was sent
    return answer


# -- aws-chunked -----------------------------------------------------------------------------------


def test_put__unsigned_trailer_framing__is_removed(s3):
    body = os.urandom(3_000_000)
    framed = AwsChunkedWrapper(
        io.BytesIO(body), checksum_cls=Crc32Checksum, checksum_name="x-amz-checksum-crc32"
    ).read()
    headers = {
        "x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        "content-encoding": "aws-chunked",
        "x-amz-trailer": "x-amz-checksum-crc32",
        "x-amz-decoded-content-length": str(len(body)),
    }
    connection = http.client.HTTPConnection("127.0.0.1", s3.port, timeout=10)
    # Sent a second time with HTTP's own chunks around it, as clients that stream do.
    for key, chunked in (("plain", False), ("twice", True)):
        sent = iter([framed[:1000], framed[1000:]]) if chunked else framed
        connection.request("PUT", f"/bkt/{key}", sent, headers, encode_chunked=chunked)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        assert s3.read(key) == body
    connection.close()
    assert b"content-encoding" not in send(s3, b"HEAD /bkt/plain HTTP/1.1\r\n\r\n")


def test_put__signed_chunks__are_decoded_and_their_length_checked(s3):
    signature = b";chunk-signature=" + b"0" * 64
    framed = b"5" + signature + b"\r\nhello\r\n6" + signature + b"\r\n world\r\n0" + signature + b"\r\n\r\n"

    def put(key: str, payload: bytes, length: int) -> bytes:
        head = (
            f"PUT /bkt/{key} HTTP/1.1\r\nx-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\r\n"
            f"x-amz-decoded-content-length: {length}\r\ncontent-length: {len(payload)}\r\n\r\n"
        )
        return send(s3, head.encode() + payload)

    assert put("k", framed, 11).startswith(b"HTTP/1.1 200")
    assert s3.read("k") == b"hello world"
    for payload, length in (
        (framed, 12),
        (framed[:-90], 11),
        (b"zz\r\n", 0),
        (b"5\r\nhelloX\r\n0\r\n\r\n", 5),
        (b"", 0),
    ):
        assert put("bad", payload, length).startswith(b"HTTP/1.1 400")
    assert [facts.key for facts in s3.objects()] == ["k"]


# -- bad requests ----------------------------------------------------------------------------------

BAD_REQUESTS = {
    "garbage": (bytes(range(256)) * 8 + b"\r\n\r\n", b"400"),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 50 + b"\r\n\r\n", b"400"),
    "http2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
    "no version": (b"GET /\r\n\r\n", b"400"),
    "header without colon": (b"GET / HTTP/1.1\r\nbroken\r\n\r\n", b"400"),
    "header name with space": (b"GET / HTTP/1.1\r\nbro ken: 1\r\n\r\n", b"400"),
    "endless head": (b"GET / HTTP/1.1\r\nx: " + b"y" * (HEAD_BYTES_MAX + 10), b"431"),
    "oversized head": (b"GET / HTTP/1.1\r\nx: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n", b"431"),
    "oversized body": (b"PUT /bkt/k HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), b"413"),
    "oversized chunk": (b"PUT /bkt/k HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nFFFFFFFFFF\r\n", b"413"),
    "negative length": (b"PUT /bkt/k HTTP/1.1\r\ncontent-length: -1\r\n\r\n", b"400"),
    "two lengths": (b"PUT /bkt/k HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx", b"400"),
    "length and chunks": (b"PUT /bkt/k HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", b"501"),
    "unknown coding": (b"PUT /bkt/k HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", b"501"),
    "bad chunk": (b"PUT /bkt/k HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n-5\r\nhello\r\n", b"400"),
    "chunk overrun": (b"PUT /bkt/k HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhello\r\n", b"400"),
    "key not utf-8": (b"GET /bkt/%ff%fe HTTP/1.1\r\n\r\n", b"400"),
    "no slash": (b"GET bkt HTTP/1.1\r\n\r\n", b"400"),
    "unknown method": (b"BREW /bkt/k HTTP/1.1\r\n\r\n", b"501"),
    "query not utf-8": (b"GET /bkt?prefix=%ff HTTP/1.1\r\n\r\n", b"400"),
    "many parameters": (b"GET /bkt?" + b"a=1&" * 5000 + b" HTTP/1.1\r\n\r\n", b"400"),
    "bad max-keys": (b"GET /bkt?list-type=2&max-keys=-1 HTTP/1.1\r\n\r\n", b"400"),
    "bad token": (b"GET /bkt?list-type=2&continuation-token=%21%21 HTTP/1.1\r\n\r\n", b"400"),
    "bad list-type": (b"GET /bkt?list-type=3 HTTP/1.1\r\n\r\n", b"400"),
    "bad bucket name": (b"PUT /Bad_Name HTTP/1.1\r\n\r\n", b"400"),
    "bad md5": (b"PUT /bkt/k HTTP/1.1\r\ncontent-md5: AAAA\r\ncontent-length: 1\r\n\r\nx", b"400"),
    "bad date": (b"GET /bkt/there HTTP/1.1\r\nif-modified-since: yesterday\r\n\r\n", b"400"),
    "bad copy source": (b"PUT /bkt/k HTTP/1.1\r\nx-amz-copy-source: bkt\r\n\r\n", b"400"),
    "bad delete": (b"POST /bkt?delete HTTP/1.1\r\ncontent-length: 3\r\n\r\n<a>", b"400"),
    "entities": (
        b'POST /bkt?delete HTTP/1.1\r\ncontent-length: 35\r\n\r\n<!DOCTYPE a [<!ENTITY b "c">]><a/>\n',
        b"400",
    ),
    "unknown control": (b"GET /_nothing HTTP/1.1\r\n\r\n", b"404"),
    "bad control json": (b"POST /_faults HTTP/1.1\r\ncontent-length: 1\r\n\r\n{", b"400"),
    "control not an object": (b"POST /_faults HTTP/1.1\r\ncontent-length: 2\r\n\r\n[]", b"400"),
    "bad release": (b'POST /_release HTTP/1.1\r\ncontent-length: 13\r\n\r\n{"limit":"x"}', b"400"),
    "bad held count": (b"GET /_held?count=x HTTP/1.1\r\n\r\n", b"400"),
}


@pytest.mark.parametrize(("data", "status"), BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_request__not_a_good_one__is_refused_and_the_server_goes_on(s3, s3_store, data, status):
    obstore.put(s3_store, "there", b"kept")
    assert send(s3, data).startswith(b"HTTP/1.1 " + status)
    assert [facts.key for facts in s3.objects()] == ["there"]
    assert bytes(obstore.get(s3_store, "there").bytes()) == b"kept"


@pytest.mark.parametrize("cut", ["PUT /bkt/k HT", "PUT /bkt/k HTTP/1.1\r\ncontent-length: 10\r\n\r\nhello"])
def test_put__connection_ends_inside_it__stores_nothing(s3, cut):
    assert send(s3, cut.encode()) == b""
    assert s3.objects() == []


def test_requests__sent_in_one_piece__are_answered_in_order(s3):
    puts = b"".join(b"PUT /bkt/k%d HTTP/1.1\r\ncontent-length: 1\r\n\r\nx" % number for number in range(300))
    answer = send(s3, puts + b"GET /bkt/k299 HTTP/1.1\r\nconnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 301
    assert answer.endswith(b"\r\n\r\nx")


def test_put__expecting_100_continue__is_told_to_go_on(s3):
    with socket.create_connection(("127.0.0.1", s3.port), timeout=10) as connection:
        connection.sendall(b"PUT /bkt/k HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"ok")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert s3.read("k") == b"ok"


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 30), min_size=1))
def test_parser__bytes_cut_anywhere__gives_the_same_requests(bodies, cuts):
    plain = b"".join(b"PUT /b/k HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body) for body in bodies)
    chunked = b"".join(
        b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        + (b"%x;e\r\n%b\r\n" % (len(body), body) if body else b"")
        + b"0\r\ntrailer: 1\r\n\r\n"
        for body in bodies
    )
    data = plain + chunked
    parser = RequestParser(lambda: None)
    found = []
    turn = 0
    while data:
        size = cuts[turn % len(cuts)]
        turn += 1
        parser.feed(data[:size])
        data = data[size:]
        while (request := parser.next()) is not None:
            found.append(request.body)
    assert found == bodies + bodies
    assert parser.waiting_bytes == 0


@given(
    st.binary(max_size=300),
    st.sampled_from([b"", b"GET / HTTP/1.1\r\n", b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"]),
)
def test_parser__any_bytes__are_a_request_or_refused(noise, start):
    parser = RequestParser(lambda: None)
    parser.feed(start + noise + b"\r\n\r\n")
    with suppress(Refusal):  # anything else would end the connection without an answer
        while parser.next() is not None:
            pass


@given(
    st.sets(st.text(alphabet="ab/ü", min_size=1, max_size=5), max_size=20),
    st.text(alphabet="ab/", max_size=2),
    st.sampled_from(["", "/", "a"]),
    st.integers(1, 5),
)
def test_list__any_keys_and_page_size__pages_join_to_the_whole(keys, prefix, delimiter, limit):
    bucket = Bucket("bkt")
    for key in keys:
        bucket.put(key, b"", headers=())
    expected: list[str] = []
    for key in sorted(key for key in keys if key.startswith(prefix)):
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if cut < 0 else key[: cut + 1]
        if name not in expected:
            expected.append(name)
    found: list[str] = []
    after = ""
    while True:
        page = bucket.list(prefix=prefix, delimiter=delimiter, after=after, limit=limit)
        found += sorted(page.keys + page.prefixes)
        after = page.resume
        if not after:
            break
        assert len(page.keys) + len(page.prefixes) == limit
    assert found == expected
