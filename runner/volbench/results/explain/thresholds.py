"""Numbers that rules compare with, each with its reason. None was fitted to faults.

A number that one rule alone needs may stand beside that rule.

How often rules that compare with them are right is counted in calibration.json.
"""

from __future__ import annotations

QUEUE_MIN = 2.0
"""Operations in flight from which a queue exists: one stream that waits for each of its operations has 1."""
FEW_MIN = 1.0
"""Operations in flight from which a meter may be what holds them, where no queue exists: commits of a server meet a
limit with 1.3 (QEMU's throttle groups of 150 to 600 operations a second)."""
FLAT_TOLERANCE = (0.85, 1.10)
"""A plateau's samples lie in this range of its level."""
FLAT_SHARE_MIN = 0.7
LEVEL_QUANTILE = 0.9
"""A limit is touched from below: the level is this quantile of the samples."""
PLATEAU_SAMPLES_MIN = 5
EXCEEDED_MIN = 0.2
"""Share of time above its limit at which a volume's own counter says that the limit acts."""
EXCEEDED_SILENT = 0.02
ELASTICITY_CAPPED = 0.35
ELASTICITY_FREE = 0.65
"""d log(rate) / d log(queue): 0 at a limit (a longer queue brings nothing), 1 where latency alone rules."""
QUEUE_SPREAD_MIN = 0.10
"""Spread (p75 - p25 of the logarithm) of the queue below which that slope cannot be told."""
COMPENSATION_CAPPED = 0.5
"""Variance of reads + writes against the sum of both variances: below 1 they take from each other."""
MIX_SPREAD_MIN = 0.03
ABSORPTION_CAPPED = 0.1
ABSORPTION_FREE = 2.5
"""Variance of the logarithm of the rate against that of the time. Levels that the kernel's throttle made in 20
recordings: 0.00 to 0.16, 17 of them up to 0.01; volumes ruled by their latency: 2.7 to 281; free ones 0.2 to
3.4."""
ABSORPTION_REFUTES_SPREAD = 0.025
"""Spread of the logarithm of the queue from which a rate that follows it refutes a limit: at a fixed depth (fio)
the queue varies by how its time is sampled, and values of 28 and 55 came from limits. It varied by 0.008 to 0.014
at seven limits of QEMU's, by 0.032 and 0.039 where each operation took a constant time (dm-delay, netem)."""
ABSORPTION_SPREAD_MIN = 0.015
"""Spread of the logarithm of the queue below which what absorbs it cannot be told from rounding."""
INFLATION_CAPPED = 3.0
INFLATION_FREE = 1.5
"""Waiting time against that of the same volume without a queue."""

REGULARITY_CAPPED = 0.02
"""Variance of the operations in an interval against their mean. N streams that each wait by themselves give the
squared variation of a wait (renewal theory), 0.1 or more for most storage; a meter is more regular, and so are
streams that take a constant time."""
EVENNESS_CAPPED = 0.3
"""The kernel's own throttle (blkio, v1) gave 0.002 to 0.27 in ten recordings, volumes ruled by their latency 8 and
more: evenness counts, but only beside a second check."""
SLICE_S = 0.1
"""In which the kernel's throttle hands out a limit (throtl_slice of block/blk-throttle.c: HZ / 10)."""
LONG_QUEUE = 6.0
"""Operations in flight, on average, that no single thread has: enough for their sum to vary if they did."""
DIRECTION_SHARE_MIN = 0.05
"""Of all operations: a direction with less is a trace, and the sum is the other direction."""
IRREGULAR_MIN = 1.0
"""More than arrivals by chance have (Poisson): a meter with a queue before it gives nothing of the kind."""
REGULARITY_SAMPLES = 6
REGULARITY_OPERATIONS = 30.0
"""Operations in an interval below which whole numbers decide the variance: rounding hides deviations of less than
half an operation, and a meter's regularity at 30 is one of 0.8."""

SAME_OPERATIONS = 0.25
"""Reads of the device against reads of the server's files, within which they are the same operations: merges take
some, the filesystem's own metadata adds some."""
PAGE_CACHE_MISSES_MIN = 0.05
"""Reads of the device against reads of the server's files through a page cache: with fewer, this device may not be
where the files are."""
LIMIT_MET = 0.93
"""Of a configured limit: the kernel gives out slices of 100 ms, and intervals are cut across them."""
LIMIT_MET_SAMPLES = 3
"""Intervals for which a configured limit is met at least, and over which its rate is averaged: the kernel charges a
long operation at once, so that one second may have half again as much and the next one less."""
FOREIGN_SHARE_MIN = 0.25
"""Of the device's operations or bytes: with less from others, the server's own are what the device works on."""
FOREIGN_SLOWDOWN = 1.3
"""Rise of the server's own waits, or fall of its transactions, that is the effect of others' I/O."""
FOREIGN_SAMPLES = 3
"""Intervals that others' I/O lasts at least: the two counters are read a moment apart."""
READ_SLOW_MS = 2.5
"""A read without a queue: network SSDs give 0.5 to 2 ms (Percona's figures of gp2: 1 to 2 ms unthrottled)."""
SYNC_SLOW_MS = 4.0
"""An fsync: a write and a flush, on a journalling filesystem a few of them, each at about 1 ms."""
UNSEEN_SYNC_MAX = 2.0
"""An fsync without an instrument against one that has one: both are a write and a flush on the same volume, of
which one may wait for the other's commit of the file system's journal."""
SYNC_BY_VOLUME = 2.5
"""An fsync against one write and one flush of the volume, of which a journalling filesystem does up to two each:
beyond it, on CPUs that are saturated, most of an fsync is waiting for a CPU."""
FLUSHING_MIN = 0.85
"""Of the time, a flush under way: 0.89 to 0.98 in 18 runs with slow flushes, up to 0.82 in 190 others."""
SHARE_MIN = 0.15
"""Of statement time: what explains less is not named as a cause."""
STORAGE_SHARE_MIN = 0.30
"""Of statement time in files: below it the volume is not the problem."""

UNSEEN_SHARE_MIN = 0.2
"""Of statement time that neither a wait nor the CPU explains: from here on the volume is not cleared."""

DEGRADED_AWAIT_MS = 50.0
DEGRADED_UTIL = 0.2
DEGRADED_IOPS = 75.0
"""Below the least that a volume of any known type gives (gp2's minimum is 100 IOPS), with room for a margin."""
DEGRADED_OPERATIONS_MIN = 30.0
"""Operations that must have been slow: a median of a few says nothing."""
DEGRADED_MIB_PER_S = 8.0
"""Below the least sequential speed of known disk types (sc1: 12 MiB/s per TiB); EFS at its floor gives 1."""
DEGRADED_RISE = 5.0
"""Rise of the waiting time of reads and writes alike, against the same volume earlier."""

METADATA_SHARE_MIN = 0.4
METADATA_FSYNCS_MAX = 0.1
"""Fsyncs for each operation of data files that neither reads nor writes: more, and its time may be theirs."""
STEAL_MIN = 0.05
CPU_BUSY_MIN = 0.90
CPU_PRESSURE_MIN = 0.5
CPU_SHARE_MIN = 0.5
"""Of statement time that is neither file nor lock waits: when it is less, something else holds most of the time."""
SERVED_MIN = 0.9
SERVED_WAIT_MAX = 0.25
"""Of the rate that a load wants, and of its clients' time in statements: who gets the rate with a quarter of the
time is held back by nothing that is merely busy."""
SERVED_DEVIATIONS = 2.0
"""Standard deviations of arrivals by chance: fewer come once in forty times."""
CPU_IDLE_MAX = 0.5
"""Below it, time that no instrument shows is waiting, not computing."""
CLIENT_CPU_MIN = 0.90
THROTTLED_MIN = 0.5
"""Share of periods in which a CPU quota held a group back, from which the quota is what it waits for."""
ROW_LOCK_SHARE_MIN = 0.2
METADATA_LOCK_SHARE_MIN = 0.2
"""Of statement time, as of row locks: what explains less hides behind what else sessions do."""
HOLDER_SHARE_MIN = 0.5
"""Of statement time that is no wait for a lock: from here on one thing is most of what lock holders do."""
HOLDERS_MIN = 0.5
"""Sessions at it, on average: a hot row has one holder at a time, who must be seen at it half of the time."""
CHECKPOINT_AGE_FULL = 0.70
"""Of the redo log: InnoDB stops writers at about 7/8 of what it may fill, and keeps a part of a small log back."""
REDO_TURNOVER_TICKS = 10.0
"""Intervals in which a redo log is written full, below which ticks see its filling only by chance."""
REDO_HOLDS_S = 600.0
"""The time for which an amount of redo is said, so that a size can be chosen; rules of thumb go up to an hour."""
POOL_SHARE_MIN = 0.5
POOL_MISS_MIN = 0.01
INTERFERENCE_MIN = 0.10
"""Loss of transactions per second while something else ran, against the rest of the window."""
INTERFERENCE_Z = 2.0
"""Standardised rank-sum of the intervals with it against those without."""
INTERFERENCE_SAMPLES = 3
"""Intervals with and without it that a comparison needs."""
STALL_COMPLETIONS_MAX = 0.02
"""Of the median: an interval with fewer completions and a queue is a stall."""
STALL_UNSEEN_S_MIN = 1.0
"""Where no client says that it waited: a shorter pause is one of the step's own, between two of its parts."""
REPLICATION_MIN = 1.5
"""Disk writes for one write of the client: one copy is 1, and merged writes make it less; two copies are 2."""
DISK_BUSY_MIN = 0.9
"""Of a disk's limit, from which it is at it: a rate limit of 10 ms lets no interval exceed it by much."""
POOL_TIME_MIN = 0.1
"""Share of a step in which a disk is at its limit, from which the pool holds the client back."""
POOL_FULL = 0.8
"""Of all disks' limits together: objects are spread unevenly, so that some disks have room when one is full."""
POOLS_ALIKE = 0.05
"""Two pools whose copies and limits differ by less are alike."""
ROUND_TRIP_SLOW_MS = 0.5
"""Within a data centre a round trip takes 0.1 to 0.5 ms, between zones of a region 0.5 to 2 ms."""
RETRANSMISSION_MS = 200.0
"""Linux sends a lost segment again after this time at the earliest (TCP_RTO_MIN, include/net/tcp.h)."""
