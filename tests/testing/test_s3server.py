"""The fault server without faults is an S3 to every client we know."""

from __future__ import annotations

import io
import os
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import lance
import obstore
import pyarrow as pa
import pyarrow.fs
import pytest
from botocore.exceptions import ClientError
from obstore.exceptions import AlreadyExistsError, NotFoundError, NotModifiedError, PreconditionError
from obstore.store import S3Store

ODD_KEYS = ("a b/c+d", "ü/日本", "per%cent", "q?u#e&r=y", "a//b", "a/../b", '<x>&"y"\'', "tilde~(1)!*")


def code_of(error: ClientError) -> tuple[int, str]:
    return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]


# -- obstore ---------------------------------------------------------------------------------------


def test_put_get_head_delete__any_key__round_trips(s3_store):
    for number, key in enumerate(("plain", "ü/日本", "per%cent", "q?u#e&r=y", "a b+c")):
        body = bytes([number]) * (number * 1000)
        put = obstore.put(s3_store, key, body)
        assert bytes(obstore.get(s3_store, key).bytes()) == body
        head = obstore.head(s3_store, key)
        assert (head["path"], head["size"], head["e_tag"]) == (key, len(body), put["e_tag"])
        obstore.delete(s3_store, key)
        with pytest.raises((NotFoundError, FileNotFoundError)):
            obstore.head(s3_store, key)


def test_get_range__every_form__gives_those_bytes(s3_store, s3_boto):
    obstore.put(s3_store, "k", bytes(range(100)))
    assert bytes(obstore.get_range(s3_store, "k", start=10, end=20)) == bytes(range(10, 20))
    assert bytes(obstore.get(s3_store, "k", options={"range": {"offset": 90}}).bytes()) == bytes(range(90, 100))
    assert bytes(obstore.get(s3_store, "k", options={"range": {"suffix": 5}}).bytes()) == bytes(range(95, 100))
    assert [bytes(part) for part in obstore.get_ranges(s3_store, "k", starts=[0, 50], ends=[2, 52])] == [
        b"\x00\x01",
        b"23",
    ]
    whole = s3_boto.get_object(Bucket="bkt", Key="k", Range="bytes=9-3")
    assert (whole["ResponseMetadata"]["HTTPStatusCode"], whole["ContentLength"]) == (200, 100)
    tail = s3_boto.get_object(Bucket="bkt", Key="k", Range="bytes=98-500")
    assert (tail["ContentRange"], tail["Body"].read()) == ("bytes 98-99/100", b"bc")
    for outside in ("bytes=100-", "bytes=-0"):
        with pytest.raises(ClientError) as refused:
            s3_boto.get_object(Bucket="bkt", Key="k", Range=outside)
        assert code_of(refused.value) == (416, "InvalidRange")


def test_create__sixteen_at_once__exactly_one_wins(s3, s3_store):
    def create(name: str) -> bool:
        try:
            obstore.put(s3_store, name, os.urandom(8), mode="create")
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        for turn in range(25):
            assert sum(pool.map(create, [f"race/{turn}"] * 16)) == 1
    assert all(facts.writes == 1 for facts in s3.objects())
    assert s3.stats().conditional == {"honoured": 400, "refused": 375, "ignored": 0, "overwrote": 0}


def test_update__with_etag__only_replaces_what_was_read(s3_store):
    first = obstore.put(s3_store, "k", b"1")
    mode = {"e_tag": first["e_tag"]}
    obstore.put(s3_store, "k", b"2", mode=mode)
    with pytest.raises(PreconditionError):
        obstore.put(s3_store, "k", b"3", mode=mode)
    assert bytes(obstore.get(s3_store, "k").bytes()) == b"2"


def test_get__conditional__is_answered_304_or_412(s3, s3_store):
    etag = obstore.put(s3_store, "k", b"1")["e_tag"]
    with pytest.raises(NotModifiedError):
        obstore.get(s3_store, "k", options={"if_none_match": etag})
    with pytest.raises(PreconditionError):
        obstore.get(s3_store, "k", options={"if_match": '"other"'})
    assert bytes(obstore.get(s3_store, "k", options={"if_match": etag}).bytes()) == b"1"
    assert s3.stats().statuses == {200: 2, 304: 1, 412: 1}


def test_list__prefix_delimiter_offset__as_s3_orders_them(s3_store):
    keys = ["a/1", "a/2", "a/b/3", "b", "c/1", "c.1"]
    for key in keys:
        obstore.put(s3_store, key, b"x")
    assert [item["path"] for item in obstore.list(s3_store).collect()] == sorted(keys)
    assert [item["path"] for item in obstore.list(s3_store, "a").collect()] == ["a/1", "a/2", "a/b/3"]
    assert [item["path"] for item in obstore.list(s3_store, offset="a/2").collect()] == ["a/b/3", "b", "c.1", "c/1"]
    found = obstore.list_with_delimiter(s3_store)
    assert list(found["common_prefixes"]) == ["a", "c"]
    assert [item["path"] for item in found["objects"]] == ["b", "c.1"]


def test_delete__many_keys__takes_one_request(s3, s3_store):
    for number in range(20):
        obstore.put(s3_store, f"d/{number}", b"")
    s3.reset_stats()
    obstore.delete(s3_store, [f"d/{number}" for number in range(20)])
    assert s3.objects() == []
    assert s3.stats().verbs == {"delete-many": 1}


def test_copy__if_not_exists_by_upload__keeps_the_first(s3):
    options = s3.obstore_options
    options["config"]["aws_copy_if_not_exists"] = "multipart"
    store = S3Store.from_url("s3://bkt", **options)
    obstore.put(store, "ü from", b"first")
    obstore.put(store, "other", b"second")
    obstore.copy(store, "ü from", "to", overwrite=False)
    with pytest.raises(AlreadyExistsError):
        obstore.copy(store, "other", "to", overwrite=False)
    obstore.copy(store, "other", "to too")
    assert (s3.read("to"), s3.read("to too")) == (b"first", b"second")


def test_put__large_body__goes_through_an_upload(s3, s3_store):
    body = os.urandom(12 * 1024 * 1024)
    obstore.put(s3_store, "large", body, chunk_size=5 * 1024 * 1024, use_multipart=True)
    assert s3.read("large") == body
    assert s3.stats().verbs["upload-part"] == 3
    assert s3.objects()[0].etag.endswith('-3"')


def test_get__presigned_url__needs_no_headers(s3_store):
    obstore.put(s3_store, "a b", b"signed")
    url = obstore.sign(s3_store, "GET", "a b", expires_in=timedelta(minutes=1))
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.read() == b"signed"


# -- boto3 -----------------------------------------------------------------------------------------


def test_list__2500_keys__pages_give_each_once(s3, s3_boto):
    keys = [f"many/{number:05d}" for number in range(2500)]
    store = S3Store.from_url("s3://bkt", **s3.obstore_options)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda key: obstore.put(store, key, b""), keys))
    for call, sizes in (("list_objects_v2", [1000, 1000, 500]), ("list_objects", [1000, 1000, 500])):
        pages = list(s3_boto.get_paginator(call).paginate(Bucket="bkt", Prefix="many/"))
        assert [len(page["Contents"]) for page in pages] == sizes
        assert [item["Key"] for page in pages for item in page["Contents"]] == keys
    after = s3_boto.list_objects_v2(Bucket="bkt", StartAfter="many/02490", MaxKeys=5)
    assert [item["Key"] for item in after["Contents"]] == keys[2491:2496]
    assert (after["IsTruncated"], after["KeyCount"]) == (True, 5)


def test_list__delimiter_with_small_pages__rolls_each_prefix_up_once(s3_boto):
    for key in ("a/1", "a/2", "b", "c/1", "c/2", "c/3", "d"):
        s3_boto.put_object(Bucket="bkt", Key=key)
    for call in ("list_objects_v2", "list_objects"):
        pages = s3_boto.get_paginator(call).paginate(Bucket="bkt", Delimiter="/", PaginationConfig={"PageSize": 1})
        found = [
            [item["Prefix"] for item in page.get("CommonPrefixes", [])]
            + [item["Key"] for item in page.get("Contents", [])]
            for page in pages
        ]
        assert found == [["a/"], ["b"], ["c/"], ["d"]]


def test_keys__odd_characters__survive_every_verb(s3_boto):
    for key in ODD_KEYS:
        s3_boto.put_object(Bucket="bkt", Key=key, Body=key.encode())
        copied = s3_boto.copy_object(Bucket="bkt", Key=f"copy/{key}", CopySource={"Bucket": "bkt", "Key": key})
        assert copied["CopyObjectResult"]["ETag"] == s3_boto.head_object(Bucket="bkt", Key=key)["ETag"]
        assert s3_boto.get_object(Bucket="bkt", Key=f"copy/{key}")["Body"].read() == key.encode()
    listed = [item["Key"] for item in s3_boto.list_objects_v2(Bucket="bkt")["Contents"]]
    assert listed == sorted([*ODD_KEYS, *(f"copy/{key}" for key in ODD_KEYS)], key=str.encode)
    gone = s3_boto.delete_objects(Bucket="bkt", Delete={"Objects": [{"Key": key} for key in listed]})
    assert {item["Key"] for item in gone["Deleted"]} == set(listed)
    assert "Contents" not in s3_boto.list_objects_v2(Bucket="bkt")


def test_upload__completed_with_if_none_match__first_wins(s3, s3_boto):
    def upload(body: bytes) -> None:
        upload_id = s3_boto.create_multipart_upload(Bucket="bkt", Key="k", Metadata={"who": "me"})["UploadId"]
        name = {"Bucket": "bkt", "Key": "k", "UploadId": upload_id}
        parts = [
            {"PartNumber": number, "ETag": s3_boto.upload_part(**name, PartNumber=number, Body=piece)["ETag"]}
            for number, piece in ((2, body), (7, b"end"))
        ]
        s3_boto.complete_multipart_upload(**name, MultipartUpload={"Parts": parts}, IfNoneMatch="*")

    upload(b"first")
    with pytest.raises(ClientError) as refused:
        upload(b"second")
    assert code_of(refused.value) == (412, "PreconditionFailed")
    assert s3.read("k") == b"firstend"
    assert s3_boto.head_object(Bucket="bkt", Key="k")["Metadata"] == {"who": "me"}


def test_upload__wrong_parts_or_aborted__stores_nothing(s3, s3_boto):
    name = {"Bucket": "bkt", "Key": "k"}
    name["UploadId"] = s3_boto.create_multipart_upload(**name)["UploadId"]
    etag = s3_boto.upload_part(**name, PartNumber=1, Body=b"x")["ETag"]
    part = {"PartNumber": 1, "ETag": etag}
    for parts, code in (
        ([part, part], "InvalidPartOrder"),
        ([{"PartNumber": 2, "ETag": etag}], "InvalidPart"),
        ([{"PartNumber": 1, "ETag": '"0"'}], "InvalidPart"),
    ):
        with pytest.raises(ClientError) as refused:
            s3_boto.complete_multipart_upload(**name, MultipartUpload={"Parts": parts})
        assert code_of(refused.value) == (400, code)
    s3_boto.abort_multipart_upload(**name)
    with pytest.raises(ClientError) as refused:
        s3_boto.upload_part(**name, PartNumber=2, Body=b"x")
    assert code_of(refused.value) == (404, "NoSuchUpload")
    assert s3.objects() == []


def test_upload__managed_transfer__arrives_whole(s3, s3_boto):
    body = os.urandom(20 * 1024 * 1024)
    s3_boto.upload_fileobj(
        io.BytesIO(body), "bkt", "file", ExtraArgs={"ContentType": "text/x", "ContentEncoding": "gzip"}
    )
    target = io.BytesIO()
    s3_boto.download_fileobj("bkt", "file", target)
    assert target.getvalue() == body == s3.read("file")
    head = s3_boto.head_object(Bucket="bkt", Key="file")
    assert (head["ContentType"], head["ContentEncoding"], head["ContentLength"]) == ("text/x", "gzip", len(body))


def test_buckets__create_list_delete__as_s3(s3_boto):
    s3_boto.create_bucket(Bucket="another")
    assert [item["Name"] for item in s3_boto.list_buckets()["Buckets"]] == ["another", "bkt"]
    assert s3_boto.get_bucket_location(Bucket="another")["LocationConstraint"] is None
    s3_boto.put_object(Bucket="another", Key="k")
    with pytest.raises(ClientError) as refused:
        s3_boto.delete_bucket(Bucket="another")
    assert code_of(refused.value) == (409, "BucketNotEmpty")
    s3_boto.delete_object(Bucket="another", Key="k")
    s3_boto.delete_bucket(Bucket="another")
    with pytest.raises(ClientError) as refused:
        s3_boto.head_bucket(Bucket="another")
    assert code_of(refused.value)[0] == 404


def test_errors__what_is_missing_or_not_done__has_its_code(s3_boto):
    for call, expected in (
        (lambda: s3_boto.get_object(Bucket="bkt", Key="none"), (404, "NoSuchKey")),
        (lambda: s3_boto.get_object(Bucket="none", Key="k"), (404, "NoSuchBucket")),
        (lambda: s3_boto.put_object(Bucket="none", Key="k"), (404, "NoSuchBucket")),
        (lambda: s3_boto.list_objects_v2(Bucket="none"), (404, "NoSuchBucket")),
        (lambda: s3_boto.put_object(Bucket="bkt", Key="k" * 1025), (400, "KeyTooLongError")),
        (lambda: s3_boto.put_object(Bucket="bkt", Key="k", IfNoneMatch='"etag"'), (501, "NotImplemented")),
        (lambda: s3_boto.put_object(Bucket="bkt", Key="none", IfMatch='"etag"'), (404, "NoSuchKey")),
        (lambda: s3_boto.get_object_tagging(Bucket="bkt", Key="k"), (501, "NotImplemented")),
        (lambda: s3_boto.get_bucket_versioning(Bucket="bkt"), (501, "NotImplemented")),
        (lambda: s3_boto.get_object(Bucket="bkt", Key="k", VersionId="1"), (501, "NotImplemented")),
    ):
        with pytest.raises(ClientError) as refused:
            call()
        assert code_of(refused.value) == expected
        assert refused.value.response["ResponseMetadata"]["RequestId"]


# -- other clients ---------------------------------------------------------------------------------


def test_lance__write_append_read__through_storage_options(s3):
    options = s3.storage_options
    table = pa.table({"n": pa.array(range(1000))})
    lance.write_dataset(table, "s3://bkt/set.lance", storage_options=options)
    lance.write_dataset(table, "s3://bkt/set.lance", mode="append", storage_options=options)
    read = lance.dataset("s3://bkt/set.lance", storage_options=options)
    assert (read.version, read.count_rows(filter="n < 10")) == (2, 20)
    assert s3.stats().conditional["honoured"] >= 2


def test_pyarrow__files_and_listing__round_trip(s3):
    files = pyarrow.fs.S3FileSystem(
        access_key="a", secret_key="s", endpoint_override=f"127.0.0.1:{s3.port}", scheme="http", region="us-east-1"
    )
    body = os.urandom(100_000)
    with files.open_output_stream("bkt/dir/file") as stream:
        stream.write(body)
    with files.open_input_file("bkt/dir/file") as stream:
        assert stream.read_at(100, 99_900) == body[-100:]
    listed = files.get_file_info(pyarrow.fs.FileSelector("bkt", recursive=True))
    assert ("bkt/dir/file", 100_000) in {(info.path, info.size) for info in listed}
    files.delete_file("bkt/dir/file")
    assert files.get_file_info("bkt/dir/file").type == pyarrow.fs.FileType.NotFound
