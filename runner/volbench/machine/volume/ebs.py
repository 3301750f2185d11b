"""One EBS volume: described, and modified, by boto3.

Tests hold requests and answers against botocore's description of EC2. Nobody has run them on AWS.
Source: Amazon EC2 API Reference, ModifyVolume: a modification is completed before the next one begins, and a volume
takes up to four in a rolling day (six hours between two until 2026, which messages of EC2 may still say).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from volbench.core.base.extras import require
from volbench.errors import MissingPrerequisite, UsageError, VolbenchError

RIGHTS = "ec2:DescribeVolumes, ec2:DescribeVolumesModifications and ec2:ModifyVolume"
_CONNECT_S, _ANSWER_S, _ATTEMPTS = 10, 30, 3
_EVIDENCE_MAX = 400
"""Characters: EC2 adds an encoded text of a page to the refusal of a right."""
_CREDENTIALS = "give boto3 valid credentials: environment, AWS_PROFILE, or the instance's role"
_NOT_ACCEPTED = ("AWS does not accept the credentials", f"{_CREDENTIALS}; check this machine's clock, too")
_STATES = "aws ec2 describe-volumes-modifications --volume-ids"
_REFUSALS: Mapping[str, tuple[str, str]] = {
    "UnauthorizedOperation": (
        "the credentials do not allow this request",
        f"allow {RIGHTS}",
    ),
    "AuthFailure": _NOT_ACCEPTED,
    "ExpiredToken": _NOT_ACCEPTED,
    "InvalidClientTokenId": _NOT_ACCEPTED,
    "RequestExpired": _NOT_ACCEPTED,
    "SignatureDoesNotMatch": _NOT_ACCEPTED,
    "OptInRequired": (
        "the account is not subscribed to EC2 in this region",
        "enable the region in the account, or give the volume's own `region`",
    ),
    "InvalidVolume.NotFound": (
        "this region has no such volume",
        "give the volume's own `region`",
    ),
    "IncorrectModificationState": (
        "an earlier modification of the volume is not completed",
        "wait until {states} {volume} says completed, which can take hours",
    ),
    "VolumeModificationRateExceeded": (
        "the volume was modified too often",
        "wait as long as the answer says: AWS documents four modifications in 24 hours",
    ),
    "IncorrectState": (
        "the volume is in a state in which EC2 modifies none",
        "attach it, and wait until it is in use",
    ),
    "MaxIOPSLimitExceeded": (
        "the account has no IOPS left in this region",
        "ask for fewer, or raise the quota",
    ),
    "VolumeLimitExceeded": (
        "the account has no storage left in this region",
        "ask for less, or raise the quota",
    ),
    "VolumeTypeNotAvailableInZone": (
        "the volume's zone has no such type",
        "choose another type",
    ),
    "RequestLimitExceeded": (
        "EC2 takes no more requests of this account for now",
        "repeat it later",
    ),
}
"""Code of EC2's error -> what it means here, and what to do."""
_PARAMETERS = ("InvalidParameter", "UnknownParameter", "UnknownVolumeType")
"""How the codes of errors begin that are about the values of a request."""


@dataclass(frozen=True, kw_only=True)
class Modification:
    """The last modification of a volume, as EC2 describes it.

    Args:
        state: modifying, optimizing, completed or failed.
        begin: when EC2 began it, which tells two apart.
        percent: how much of it is done; None where EC2 does not say.
        message: why it failed; empty: EC2 does not say.
    """

    state: str
    begin: datetime | None
    percent: int | None = None
    message: str = ""

    @property
    def is_under_way(self) -> bool:
        """Whether EC2 takes no further modification yet."""
        return self.state in ("modifying", "optimizing")


@contextmanager
def ebs_volume(volume_id: str, *, region: str, where: str) -> Iterator[EbsVolume]:
    """Yield a volume of a region.

    Args:
        volume_id: such as vol-0123456789abcdef0.
        region: empty: AWS_REGION, else that of boto3's own configuration.
        where: the step, for errors.

    Raises MissingPrerequisite without boto3 or a region.
    """
    require("boto3")
    import boto3  # noqa: PLC0415 - an extra; most users have no need of it
    from botocore.config import Config  # noqa: PLC0415
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415

    config = Config(connect_timeout=_CONNECT_S, read_timeout=_ANSWER_S, retries={"total_max_attempts": _ATTEMPTS})
    try:
        session = boto3.Session(region_name=region or os.environ.get("AWS_REGION") or None)
        client = session.client("ec2", config=config)
    except (BotoCoreError, ValueError) as error:  # ValueError: of a region that is no host's name
        raise MissingPrerequisite(
            "boto3 cannot ask EC2 about the volume",
            where=where,
            evidence=f"{type(error).__name__}: {error}",
            next_step="give `region`, or AWS_REGION; check AWS_PROFILE and ~/.aws/config",
        ) from error
    try:
        yield EbsVolume(client, volume_id, where=where)
    finally:
        client.close()


class EbsVolume:
    """One volume, by boto3's client of its region.

    Every request raises UsageError for values that EC2 refuses, MissingPrerequisite for all else.

    Args:
        client: of EC2.
        volume_id: of the volume.
        where: the step, for errors.
    """

    def __init__(self, client: Any, volume_id: str, *, where: str) -> None:
        self._client = client
        self._id = volume_id
        self._where = where

    def describe(self) -> Mapping[str, Any]:
        """Return the volume as DescribeVolumes has it: Size in GiB, VolumeType, Iops, Throughput in MiB/s."""
        with self._requesting("DescribeVolumes"):
            volumes = self._client.describe_volumes(VolumeIds=[self._id])["Volumes"]
        if not volumes:
            fault, next_step = _REFUSALS["InvalidVolume.NotFound"]
            raise MissingPrerequisite(fault, where=self._where, evidence=self._id, next_step=next_step)
        return dict(volumes[0])

    def last_modification(self) -> Modification | None:
        """Return the last modification; None: EC2 knows of none.

        A filter is used, since EC2 answers an id that was never modified with an error.
        """
        with self._requesting("DescribeVolumesModifications"):
            answer = self._client.describe_volumes_modifications(
                Filters=[{"Name": "volume-id", "Values": [self._id]}]
            )
        described = next(iter(answer["VolumesModifications"]), None)
        if described is None:
            return None
        return Modification(
            state=described["ModificationState"],
            begin=described.get("StartTime"),
            percent=described.get("Progress"),
            message=described.get("StatusMessage", ""),
        )

    def check_right(self, request: Mapping[str, str | int]) -> None:
        """Ask whether the credentials allow a modification, without making one. EC2 checks no values then."""
        from botocore.exceptions import ClientError  # noqa: PLC0415 - an extra

        with self._requesting("ModifyVolume"):
            try:
                self._client.modify_volume(VolumeId=self._id, DryRun=True, **request)
            except ClientError as error:
                if error.response["Error"]["Code"] != "DryRunOperation":
                    raise

    def modify(self, request: Mapping[str, str | int]) -> None:
        """Ask for a modification; EC2 makes it after its answer."""
        with self._requesting("ModifyVolume"):
            self._client.modify_volume(VolumeId=self._id, **request)

    @contextmanager
    def _requesting(self, request: str) -> Iterator[None]:
        from botocore import exceptions as botocore  # noqa: PLC0415 - an extra

        credentials = (
            *(botocore.NoCredentialsError, botocore.PartialCredentialsError, botocore.CredentialRetrievalError),
            *(botocore.SSOError, botocore.TokenRetrievalError),
        )
        try:
            yield
        except botocore.ClientError as error:
            raise self._refusal(request, error) from error
        except credentials as error:
            raise MissingPrerequisite(
                "boto3 has no credentials for AWS",
                where=self._where,
                evidence=self._evidence(request, error),
                next_step=_CREDENTIALS,
            ) from error
        except botocore.BotoCoreError as error:
            raise MissingPrerequisite(
                "EC2 does not answer",
                where=self._where,
                evidence=self._evidence(request, error),
                next_step="check the region, the network, and proxies",
            ) from error

    def _evidence(self, request: str, error: Exception) -> str:
        text = f"{request} {self._id} in {self._client.meta.region_name}: {type(error).__name__}: {error}"
        return text if len(text) <= _EVIDENCE_MAX else f"{text[:_EVIDENCE_MAX]} ..."

    def _refusal(self, request: str, error: Any) -> VolbenchError:
        code = error.response["Error"]["Code"]
        evidence = self._evidence(request, error)
        if code.startswith(_PARAMETERS):
            return UsageError(
                "EBS does not offer these values",
                where=self._where,
                evidence=evidence,
                next_step="change `to`; the answer says which value",
            )
        fault, next_step = _REFUSALS.get(code, ("EC2 refuses the request", "see the answer"))
        return MissingPrerequisite(
            fault,
            where=self._where,
            evidence=evidence,
            next_step=next_step.format(states=_STATES, volume=self._id),
        )
