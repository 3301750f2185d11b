"""Reports of iostat with the headings of new and of old versions of sysstat."""

NEW = """Linux 6.1.0-28-amd64 (db) \t01/31/26 \t_x86_64_\t(4 CPU)

01/31/26 10:00:01
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           1.00    0.00    1.00    0.00    0.00   98.00

Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz f/s f_await aqu-sz %util
nvme1n1 9.00 144.00 0.00 0.00 0.90 16.00 9.00 144.00 0.00 0.00 0.90 16.00 1.00 0.10 0.10 1.00

01/31/26 10:00:02
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
          20.00    0.00   10.00    5.00    1.00   64.00

Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz f/s f_await aqu-sz %util
nvme1n1 100.00 2048.00 0.00 0.00 2.50 16.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.25 20.00
loop3 1.00 1.00 0.00 0.00 2.50 16.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.00 0.25 20.00

"""
OLD = """Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util
sda 0.00 0.00 1.00 1.00 16.00 16.00 32.00 0.01 1.00 1.00 1.00 0.50 0.10

Device: rrqm/s wrqm/s r/s w/s rkB/s wkB/s avgrq-sz avgqu-sz await r_await w_await svctm %util
sda 0.00 0.00 150.00 50.00 2400.00 800.00 32.00 8.00 40.00 40.00 40.00 5.00 100.00
"""
