"""An EBS volume by boto3: requests and answers are checked by botocore's own description of EC2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from botocore.stub import Stubber

from volbench.errors import MissingPrerequisite, UsageError
from volbench.machine.volume import ebs
from volbench.machine.volume.ebs import EbsVolume, Modification, ebs_volume

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
REGION, VOLUME = "eu-west-1", "vol-0123456789abcdef0"
BY_ID = {"Filters": [{"Name": "volume-id", "Values": [VOLUME]}]}
BEGIN = datetime(2026, 11, 27, 6, 0, tzinfo=UTC)
REQUEST: dict[str, str | int] = {"VolumeType": "gp3", "Iops": 6000}


@pytest.fixture(scope="module")
def client() -> Any:
    return boto3.client("ec2", region_name=REGION, aws_access_key_id="id", aws_secret_access_key="secret")


@pytest.fixture
def answers(client: Any) -> Iterator[Stubber]:
    """The answers of EC2, in order; one that has no operation, key or type of the vendor's is refused."""
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


@pytest.fixture
def volume(client: Any) -> EbsVolume:
    return EbsVolume(client, VOLUME, where="step grow")


def test_a_volume_is_described(volume: EbsVolume, answers: Stubber) -> None:
    described = {"VolumeId": VOLUME, "VolumeType": "gp2", "Size": 100, "Iops": 300}
    answers.add_response("describe_volumes", {"Volumes": [described]}, {"VolumeIds": [VOLUME]})
    assert volume.describe() == described


def test_a_volume_that_was_never_modified_has_no_modification(volume: EbsVolume, answers: Stubber) -> None:
    answers.add_response("describe_volumes_modifications", {"VolumesModifications": []}, BY_ID)
    assert volume.last_modification() is None


@pytest.mark.parametrize(
    ("state", "under_way"), [("modifying", True), ("optimizing", True), ("completed", False), ("failed", False)]
)
def test_every_state_of_the_vendor_is_read(
    volume: EbsVolume, answers: Stubber, client: Any, state: str, under_way: bool
) -> None:
    described = {"VolumeId": VOLUME, "ModificationState": state, "StartTime": BEGIN, "Progress": 41}
    answers.add_response("describe_volumes_modifications", {"VolumesModifications": [described]}, BY_ID)
    last = volume.last_modification()
    assert last == Modification(state=state, begin=BEGIN, percent=41)
    assert last is not None
    assert last.is_under_way == under_way
    assert state in client.meta.service_model.shape_for("VolumeModificationState").enum


def test_there_is_no_state_that_the_test_does_not_know(client: Any) -> None:
    states = set(client.meta.service_model.shape_for("VolumeModificationState").enum)
    assert states == {"modifying", "optimizing", "completed", "failed"}


def test_a_modification_is_requested(volume: EbsVolume, answers: Stubber) -> None:
    modification = {"VolumeModification": {"VolumeId": VOLUME, "ModificationState": "modifying"}}
    answers.add_response("modify_volume", modification, {"VolumeId": VOLUME, **REQUEST})
    volume.modify(REQUEST)


def test_a_right_is_asked_for_without_a_modification(volume: EbsVolume, answers: Stubber) -> None:
    parameters = {"VolumeId": VOLUME, "DryRun": True, **REQUEST}
    answers.add_client_error("modify_volume", "DryRunOperation", expected_params=parameters)
    volume.check_right(REQUEST)


CODES = [
    ("UnauthorizedOperation", "do not allow"),
    ("AuthFailure", "does not accept the credentials"),
    ("ExpiredToken", "does not accept the credentials"),
    ("RequestExpired", "this machine's clock"),
    ("OptInRequired", "not subscribed to EC2 in this region"),
    ("InvalidVolume.NotFound", "no such volume"),
    ("IncorrectModificationState", f"--volume-ids {VOLUME} says completed"),
    ("VolumeModificationRateExceeded", "too often"),
    ("IncorrectState", "a state in which EC2 modifies none"),
    ("MaxIOPSLimitExceeded", "no IOPS left"),
    ("VolumeLimitExceeded", "no storage left"),
    ("VolumeTypeNotAvailableInZone", "choose another type"),
    ("RequestLimitExceeded", "repeat it later"),
    ("InternalError", "EC2 refuses the request"),
]


@pytest.mark.parametrize(("code", "phrase"), CODES)
def test_a_refusal_says_what_to_do(volume: EbsVolume, answers: Stubber, code: str, phrase: str) -> None:
    answers.add_client_error("modify_volume", code, "the vendor's own text")
    with pytest.raises(MissingPrerequisite) as refused:
        volume.modify(REQUEST)
    text = str(refused.value)
    assert phrase in text
    assert text.startswith("step grow: ")
    assert all(part in refused.value.evidence for part in (code, "the vendor's own text", VOLUME, REGION))
    assert "{" not in text


@pytest.mark.parametrize("code", ["InvalidParameterValue", "InvalidParameterCombination", "UnknownVolumeType"])
def test_values_that_ebs_does_not_offer_are_the_users_fault(volume: EbsVolume, answers: Stubber, code: str) -> None:
    answers.add_client_error("modify_volume", code, "Volume iops of 6000 is too high")
    with pytest.raises(UsageError, match="too high"):
        volume.modify(REQUEST)


def test_a_missing_right_is_refused_before_a_modification(volume: EbsVolume, answers: Stubber) -> None:
    answers.add_client_error("modify_volume", "UnauthorizedOperation", "Encoded: " + "x" * 2000)
    with pytest.raises(MissingPrerequisite, match="ec2:ModifyVolume") as refused:
        volume.check_right(REQUEST)
    assert len(refused.value.evidence) < 500


def raising(error: Exception) -> Callable[..., None]:
    def answer(**_: Any) -> None:
        raise error

    return answer


@pytest.mark.parametrize(
    ("error", "phrase"),
    [
        (NoCredentialsError(), "no credentials for AWS"),
        (EndpointConnectionError(endpoint_url="https://ec2"), "EC2 does not answer"),
    ],
)
def test_a_client_without_an_answer_is_a_lack_of_the_environment(
    volume: EbsVolume, client: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, phrase: str
) -> None:
    monkeypatch.setattr(client, "describe_volumes", raising(error))
    with pytest.raises(MissingPrerequisite, match=phrase) as refused:
        volume.describe()
    assert type(error).__name__ in refused.value.evidence


@pytest.fixture
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("no_configuration")
def test_without_a_region_nobody_is_asked() -> None:
    with pytest.raises(MissingPrerequisite, match="give `region`"), ebs_volume(VOLUME, region="", where="step s"):
        raise AssertionError


@pytest.mark.usefixtures("no_configuration")
def test_without_credentials_nobody_is_asked() -> None:
    with (
        ebs_volume(VOLUME, region=REGION, where="step s") as volume,
        pytest.raises(MissingPrerequisite, match="no credentials for AWS"),
    ):
        volume.describe()


def test_without_boto3_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volbench.core.base.extras.find_spec", lambda _: None)
    with pytest.raises(MissingPrerequisite, match="boto3") as refused, ebs_volume(VOLUME, region="", where="s"):
        raise AssertionError
    assert "aws" in refused.value.next_step


def test_the_rights_are_those_of_the_requests(client: Any) -> None:
    named = {right.removeprefix("ec2:") for right in ebs.RIGHTS.replace(" and", ",").replace(" ", "").split(",")}
    assert named == {"DescribeVolumes", "DescribeVolumesModifications", "ModifyVolume"}
    assert named <= set(client.meta.service_model.operation_names)
