"""Commit store in DynamoDB: a transaction of conditions decides.

What must hold:
- A claim is one TransactWriteItems: put the place if it is free, on condition that the predecessor has
  the parent's digest and that no range claim covers the place.
- Every read is strongly consistent. The table has no time to live, and is no global table: a second
  region would decide on its own.

Items: ``scope`` (``s/`` and the scope; the partition key) and ``position`` (the sort key). A scope's range
claim is at position -1 with its ``below``; the identity is at scope ``identity``, which no claim can have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from siltstone.commit.checks import NO_RANGE, Range, Standing, stored_claim
from siltstone.commit.handle import ATTEMPTS_MAX, LookingHandle
from siltstone.commit.location import Location, is_loopback, parse_location, require_driver
from siltstone.errors import InvalidInputError, PermissionDeniedError, SiltstoneError
from siltstone.ids import Ids, SystemIds

if TYPE_CHECKING:
    from siltstone.commit.registry import Claim

TABLE_PATTERN = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
BATCH_ITEMS_MAX = 25
"""Items DynamoDB takes in one BatchWriteItem."""

_OPTIONS: dict[str, type] = {
    "region": str,
    "endpoint": str,
    "profile": str,
    "create": bool,
    "aws_access_key_id": str,
    "aws_secret_access_key": str,
    "aws_session_token": str,
}
# Position, value and others are words of DynamoDB's own, so every attribute goes by an alias.
_SCOPE, _POSITION, _DIGEST, _BELOW = {"#s": "scope"}, {"#n": "position"}, {"#d": "digest"}, {"#b": "below"}
_RANGE_POSITION = -1
_IDENTITY_KEY = {"scope": {"S": "identity"}, "position": {"N": "0"}}
_DENIED_CODES = {
    "AccessDeniedException",
    "UnrecognizedClientException",
    "InvalidSignatureException",
    "MissingAuthenticationTokenException",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "IncompleteSignature",
}

_Item = dict[str, Any]


class _Clients(NamedTuple):
    """One that sends a request once, for claims, and one that repeats it."""

    once: Any
    many: Any


class DynamoDbRegistry(LookingHandle[_Clients]):
    """Claims in items of a DynamoDB table."""

    kind = "dynamodb"
    thread_safe_connection = True

    def __init__(self, uri: str, options: dict[str, Any], *, ids: Ids) -> None:
        location = parse_location(uri, options, accepts=_OPTIONS)
        table = uri.partition("://")[2].partition("?")[0]
        if TABLE_PATTERN.fullmatch(table) is None:
            raise InvalidInputError(
                "the DynamoDB URI names no table", hint="use dynamodb://table?region=...; 3 to 255 of a-z A-Z 0-9 _ . -"
            )
        location = _with_table(location, table)
        _check_endpoint(location.options)
        super().__init__(open_registry, uri, {**options, "ids": ids}, location)
        self._table = table
        self._ids = ids
        self._botocore = require_driver("botocore.exceptions", extra="dynamodb")
        self._boto3 = require_driver("boto3", extra="dynamodb")

    # -- connection ----------------------------------------------------------------------------------

    def _connect(self) -> _Clients:
        # The driver must not send a claim again by itself: a refusal of the second one would be reported for what
        # the first one did. Whoever claims asks again, and knows that an answer was lost. All else may be repeated.
        clients = _Clients(once=self._client(attempts=1), many=self._client(attempts=3))
        if self._location.options.get("create", False):
            self._create_table(clients.many)
        return clients

    def _client(self, *, attempts: int) -> Any:
        options = self._location.options
        config = require_driver("botocore.config", extra="dynamodb").Config(
            connect_timeout=self._location.connect_timeout_s,
            read_timeout=self._location.timeout_s,
            retries={"mode": "standard", "total_max_attempts": attempts},
            max_pool_connections=16,
        )
        keys = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        session = self._boto3.session.Session(profile_name=options.get("profile"))
        return session.client(
            "dynamodb",
            region_name=options.get("region"),
            endpoint_url=options.get("endpoint"),
            verify=options.get("ca_file"),
            config=config,
            **{name: options[name] for name in keys if name in options},
        )

    def _create_table(self, client: Any) -> None:
        try:
            client.create_table(
                TableName=self._table,
                AttributeDefinitions=[
                    {"AttributeName": "scope", "AttributeType": "S"},
                    {"AttributeName": "position", "AttributeType": "N"},
                ],
                KeySchema=[
                    {"AttributeName": "scope", "KeyType": "HASH"},
                    {"AttributeName": "position", "KeyType": "RANGE"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
        except self._botocore.ClientError as error:
            if _code(error) not in {"ResourceInUseException", "TableAlreadyExistsException"}:
                raise
        client.get_waiter("table_exists").wait(TableName=self._table, WaiterConfig={"Delay": 1, "MaxAttempts": 60})

    def _disconnect(self, raw: _Clients) -> None:
        raw.once.close()
        raw.many.close()

    def _translate(self, error: Exception) -> SiltstoneError | None:
        words = self._scrubbed(error)
        if isinstance(error, self._botocore.ClientError):
            code = _code(error)
            if code in _DENIED_CODES:
                hint = "check the AWS credentials and their policy"
                return PermissionDeniedError(f"{self.uri} refused access: {words}", hint=hint, subject=self.uri)
            if code == "ResourceNotFoundException":
                hint = "create it (scope: string partition key, position: number sort key), or pass create=True"
                return InvalidInputError(f"{self.uri}: there is no such table", hint=hint, subject=self.uri)
            if code == "ValidationException":
                hint = "the table needs a string partition key scope and a number sort key position"
                return InvalidInputError(f"{self.uri} refused the request: {words}", hint=hint, subject=self.uri)
            return self._unavailable(error)
        if isinstance(error, (self._botocore.NoCredentialsError, self._botocore.PartialCredentialsError)):
            hint = "set AWS_ACCESS_KEY_ID and the rest, or a profile"
            return PermissionDeniedError(f"no credentials for {self.uri}", hint=hint, subject=self.uri)
        if isinstance(error, (self._botocore.NoRegionError, self._botocore.ProfileNotFound)):
            hint = "add ?region= or correct the profile"
            return InvalidInputError(f"{self.uri}: {words}", hint=hint, subject=self.uri)
        if isinstance(error, (self._botocore.BotoCoreError, OSError)):
            return self._unavailable(error)
        return None

    # -- decisions -----------------------------------------------------------------------------------

    def _take(self, raw: _Clients, claim: Claim, standing: Standing | None, *, chained: bool) -> bool:
        place = self._key(claim.scope, claim.position)
        item = place | {"digest": _s(claim.digest), "parent": _s(claim.parent), "value": _s(claim.value)}
        ranged = self._key(claim.scope, _RANGE_POSITION)
        put = {"Put": self._when(None, "attribute_not_exists(#s)", _SCOPE) | {"Item": item}}
        if chained and standing is not None and claim.position == standing.truncated.below > 0:
            names = {**_BELOW, **_DIGEST}
            check = self._when(ranged, "#b = :n AND #d = :d", names, n=_n(claim.position), d=_s(claim.parent))
            steps = [put, {"ConditionCheck": check}]
        else:
            condition = "attribute_not_exists(#b) OR #b <= :n"
            steps = [put, {"ConditionCheck": self._when(ranged, condition, _BELOW, n=_n(claim.position))}]
            if chained and claim.position > 0:
                previous = self._key(claim.scope, claim.position - 1)
                steps.append({"ConditionCheck": self._when(previous, "#d = :d", _DIGEST, d=_s(claim.parent))})
        try:
            raw.once.transact_write_items(TransactItems=steps)
            return True
        except self._botocore.ClientError as error:
            if _code(error) in {"TransactionCanceledException", "TransactionInProgressException"}:
                return False
            raise

    def _look(self, raw: _Clients, claim: Claim) -> Standing:
        positions = dict.fromkeys((_RANGE_POSITION, claim.position, claim.position - 1))
        keys = [self._key(claim.scope, at) for at in positions]
        for attempt in range(ATTEMPTS_MAX):
            try:
                steps = [{"Get": {"TableName": self._table, "Key": key}} for key in keys]
                found = raw.many.transact_get_items(TransactItems=steps)["Responses"]
                break
            except self._botocore.ClientError as error:
                # Another client's transaction is under way on one of the items.
                if _code(error) != "TransactionCanceledException" or attempt == ATTEMPTS_MAX - 1:
                    raise
        items = {int(one["Item"]["position"]["N"]): one["Item"] for one in found if one.get("Item")}
        truncated = NO_RANGE
        if _RANGE_POSITION in items:
            last = items.pop(_RANGE_POSITION)
            truncated = Range(int(last["below"]["N"]), last["digest"]["S"])
        bound, previous = (
            _claim(claim.scope, items[at]) if at in items else None for at in (claim.position, claim.position - 1)
        )
        return Standing(truncated, bound, previous)

    def _lookup(self, raw: _Clients, scope: str, position: int) -> Claim | None:
        item = raw.many.get_item(TableName=self._table, Key=self._key(scope, position), ConsistentRead=True).get("Item")
        return _claim(scope, item) if item else None

    def _newest(self, raw: _Clients, scope: str) -> Claim | None:
        items = self._query(raw, scope, "#s = :s AND #n >= :n", n=_n(0), forward=False)["Items"]
        return _claim(scope, items[0]) if items else None

    def _truncate(self, raw: _Clients, scope: str, below: int, digest: str) -> None:
        try:
            raw.many.update_item(
                UpdateExpression="SET #b = :b, #d = :d",
                **self._when(
                    self._key(scope, _RANGE_POSITION),
                    "attribute_not_exists(#b) OR #b < :b",
                    {**_BELOW, **_DIGEST},
                    b=_n(below),
                    d=_s(digest),
                ),
            )
        except self._botocore.ClientError as error:
            if _code(error) != "ConditionalCheckFailedException":
                raise
        while items := self._query(
            raw, scope, "#s = :s AND #n BETWEEN :n AND :m", n=_n(0), m=_n(below - 1), limit=BATCH_ITEMS_MAX
        )["Items"]:
            keys = [{name: item[name] for name in ("scope", "position")} for item in items]
            requests = [{"DeleteRequest": {"Key": key}} for key in keys]
            raw.many.batch_write_item(RequestItems={self._table: requests})  # what it left undone comes up again

    def _identity(self, raw: _Clients) -> str:
        for _ in range(ATTEMPTS_MAX):
            item = raw.many.get_item(TableName=self._table, Key=_IDENTITY_KEY, ConsistentRead=True).get("Item")
            if item:
                return str(item["value"]["S"])
            try:
                new = _IDENTITY_KEY | {"value": _s(self._ids.new())}
                raw.many.put_item(Item=new, **self._when(None, "attribute_not_exists(#s)", _SCOPE))
            except self._botocore.ClientError as error:
                if _code(error) != "ConditionalCheckFailedException":
                    raise
        raise self._unavailable("its identity was removed as often as it was made")

    def _adopt(self, raw: _Clients, identity: str) -> None:
        raw.many.put_item(TableName=self._table, Item=_IDENTITY_KEY | {"value": _s(identity)})

    # -- requests ------------------------------------------------------------------------------------

    def _when(self, key: _Item | None, condition: str, names: dict[str, str], **values: _Item) -> _Item:
        request: _Item = {"TableName": self._table, "ConditionExpression": condition, "ExpressionAttributeNames": names}
        if key is not None:
            request["Key"] = key
        if values:
            request["ExpressionAttributeValues"] = {f":{name}": value for name, value in values.items()}
        return request

    def _query(
        self, raw: _Clients, scope: str, condition: str, *, limit: int = 1, forward: bool = True, **values: _Item
    ) -> Any:
        return raw.many.query(
            TableName=self._table,
            KeyConditionExpression=condition,
            ExpressionAttributeNames={**_SCOPE, **_POSITION},
            ExpressionAttributeValues={":s": _s(f"s/{scope}"), **{f":{name}": value for name, value in values.items()}},
            ConsistentRead=True,
            ScanIndexForward=forward,
            Limit=limit,
        )

    def _key(self, scope: str, position: int) -> _Item:
        return {"scope": _s(f"s/{scope}"), "position": _n(position)}


def _s(text: str) -> _Item:
    return {"S": text}


def _n(number: int) -> _Item:
    return {"N": str(number)}


def _code(error: Any) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _claim(scope: str, item: _Item) -> Claim:
    digest, parent, value = (item.get(name, {}).get("S") for name in ("digest", "parent", "value"))
    return stored_claim(scope, int(item["position"]["N"]), digest, parent, value)


def _with_table(location: Location, table: str) -> Location:
    # A host's case is folded when a URI is taken apart; a table's name keeps it.
    return Location(location.scheme, table, 0, "", "", "", location.options)


def _check_endpoint(options: dict[str, Any]) -> None:
    if "endpoint" not in options:
        return
    try:
        parts = urlsplit(options["endpoint"])
        host, userinfo = parts.hostname or "", "@" in parts.netloc
    except ValueError:
        host, userinfo, parts = "", False, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or userinfo or parts.query:
        raise InvalidInputError("the option 'endpoint' is no plain URL", hint="use https://host:port")
    if parts.scheme == "http" and not is_loopback(host) and not options.get("insecure", False):
        raise InvalidInputError(
            f"the endpoint {host} is not on this machine and would be spoken to without TLS",
            hint="use https://, or insecure=True on a network you trust",
        )


def open_registry(uri: str, *, ids: Ids | None = None, **options: Any) -> DynamoDbRegistry:
    """Open ``dynamodb://table?region=...``; credentials come from where boto3 looks for them.

    Options: ``region``, ``endpoint``, ``profile``, ``create`` (make the table at first use if it is absent),
    ``timeout_s``, ``insecure``, ``ca_file``, and the three ``aws_`` keys.
    """
    return DynamoDbRegistry(uri, options, ids=ids or SystemIds())
