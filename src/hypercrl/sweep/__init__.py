"""Many runs: on the cores of this machine, or on a Ray cluster.

    plan -> session -> launcher -> job -> worker

A plan names the runs. The session claims them one by one, hands them to a launcher and follows
them on the live table. A launcher decides where a job goes; a job is one process, the worker,
that carries out one run in its folder as `hypercrl train` would. Runs share nothing but the
location of their folders, so any of them may fail, or be killed, without touching the others.
"""
