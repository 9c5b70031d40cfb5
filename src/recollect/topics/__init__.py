"""The impure half of topics: the jobs that assign messages to topics and fold topics.

`matcher` and what it needs are imported when first used, because they import numpy.
"""
