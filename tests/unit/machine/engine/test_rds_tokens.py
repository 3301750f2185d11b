"""IAM tokens of RDS: signed as AWS documents it, renewed in time, never without TLS.

The signature is recomputed here from the steps of AWS' Signature Version 4. No server of AWS has seen one.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
import threading
import time
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from volbench.core.records.cell import AttachSpec
from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.engine import rds_tokens
from volbench.machine.engine.attached import account_of
from volbench.machine.engine.connection import Account, MemoryFile, read_option_file
from volbench.machine.engine.rds_tokens import RdsTokens, renewing
from volbench.machine.engine.sysbench.config import _with_token_apart
from volbench.machine.placement.attach import parse_dsn, without_password

HOST = "db1.abcdefghijkl.eu-west-1.rds.amazonaws.com"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKENS = RdsTokens(region="eu-west-1", host=HOST, port=3307, user="bench")


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("boto3")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setattr(rds_tokens, "_signed", {})


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    """A file in the place of a CA's, which is read when somebody connects."""
    (tmp_path / "ca.pem").write_text("not read here")
    return tmp_path / "ca.pem"


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _signature(token: str) -> str:
    """AWS General Reference, Signature Version 4: that of a presigned GET of an endpoint's connect action."""
    url = urlsplit(f"https://{token}")
    named = dict(parse_qsl(url.query))
    moment, scope = named["X-Amz-Date"], named["X-Amz-Credential"].split("/", 1)[1]
    pairs = sorted(
        (quote(key, safe="-_.~"), quote(value, safe="-_.~"))
        for key, value in named.items()
        if key != "X-Amz-Signature"
    )
    request = "\n".join(
        (
            "GET",
            "/",
            "&".join("=".join(pair) for pair in pairs),
            f"host:{url.netloc}",
            "",
            "host",
            hashlib.sha256(b"").hexdigest(),
        )
    )
    text = "\n".join(("AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{SECRET_KEY}".encode()
    for field in scope.split("/"):
        key = _mac(key, field)
    return _mac(key, text).hex()


def test_a_token_has_the_signature_that_aws_documents() -> None:
    token = TOKENS.current()
    named = dict(parse_qsl(urlsplit(f"https://{token}").query))
    assert token.startswith(f"{HOST}:3307/?")
    assert (named["Action"], named["DBUser"], named["X-Amz-Expires"]) == ("connect", "bench", "900")
    assert named["X-Amz-Credential"].endswith("/eu-west-1/rds-db/aws4_request")
    assert named["X-Amz-Signature"] == _signature(token)


def test_a_token_is_signed_again_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[float] = []
    now_s = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])

    def sign(_: RdsTokens) -> str:
        signed.append(now_s[0])
        return f"token {len(signed)}"

    monkeypatch.setattr(RdsTokens, "_sign", sign)
    account = Account(user="bench", host=HOST, tokens=TOKENS)
    for now_s[0] in (1000.0, 1599.0, 1600.0, 2199.0, 2500.0):
        account.option_file_text()
    assert signed == [1000.0, 1600.0, 2500.0]
    assert account.secret == "token 3"
    assert pickle.loads(pickle.dumps(account)).secret == "token 3"  # noqa: S301 - as workers get it


def test_programs_that_connect_later_find_the_new_token() -> None:
    """The file is replaced at its path, also for a process that opens it by then."""
    texts = iter(f'[client]\npassword="token {number}"\n' for number in range(2, 1000))
    file = MemoryFile('[client]\npassword="token 1"\n')
    renewed = threading.Event()

    def renew() -> None:
        file.replace(next(texts))
        renewed.set()

    with renewing(renew, every_s=0.01):
        assert renewed.wait(30)
        assert read_option_file(file.path)["password"] != "token 1"
    file.close()


def test_a_failed_renewal_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    calls, enough = [], threading.Event()

    def renew() -> None:
        calls.append(1)
        if len(calls) == 3:
            enough.set()
        raise MissingPrerequisite("no credentials")

    with renewing(renew, every_s=0.01):
        assert enough.wait(30)
    assert "the IAM token was not renewed" in caplog.text


def test_without_credentials_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(MissingPrerequisite) as refused:
        TOKENS.current()
    assert "NoCredentialsError" in refused.value.evidence
    assert "profile" in refused.value.next_step


@pytest.mark.parametrize(
    ("spec", "lacks"),
    [
        (AttachSpec(host=HOST, rds_iam_region="eu-west-1"), "TLS"),
        (AttachSpec(host=HOST, rds_iam_region="eu-west-1", ssl_mode="DISABLED"), "TLS"),
        (AttachSpec(host=HOST, rds_iam_region="eu-west-1", ssl_mode="REQUIRED"), "TLS with a verified certificate"),
        (AttachSpec(socket="/run/s", rds_iam_region="eu-west-1", ssl_mode="REQUIRED"), "the host"),
    ],
)
def test_a_token_is_never_sent_in_clear(spec: AttachSpec, lacks: str) -> None:
    with pytest.raises(UsageError, match=f"need {lacks}"):
        account_of(spec, {})


def test_a_token_takes_the_place_of_the_environments_password(ca: Path) -> None:
    dsn = f"mysql://bench@{HOST}:3307/volbench?ssl-ca={ca}&rds-iam-region=eu-west-1"
    account = account_of(parse_dsn(dsn), {"VOLBENCH_MYSQL_PASSWORD": "not-this"})
    assert account.tokens == TOKENS
    assert account.secret.startswith(f"{HOST}:3307/?")
    assert account.client_options()["loose-enable-cleartext-plugin"] == "1"
    assert without_password(dsn) == dsn
    assert account.secret not in repr(account)


def test_sysbench_gets_a_token_that_its_configuration_has_no_room_for(ca: Path) -> None:
    account = account_of(AttachSpec(host=HOST, ssl_ca=str(ca), rds_iam_region="eu-west-1"), {})
    left, variables = _with_token_apart(account)
    assert left.secret == ""
    plain = Account(user="u", password="short")
    assert variables["MYSQL_PWD"] == account.secret
    assert _with_token_apart(plain) == (plain, {})


def test_a_region_is_checked_and_kept_for_resume() -> None:
    with pytest.raises(UsageError, match="no region"):
        parse_dsn("mysql://u@h/x?rds-iam-region=PassWord1")
    for region in ("eu-west-1", "us-gov-east-1", "ap-southeast-4", "eusc-de-east-1"):
        assert parse_dsn(f"mysql://u@h/x?rds-iam-region={region}").rds_iam_region == region
