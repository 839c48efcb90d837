"""What rules are written with: their classes, what these are shown, and the words and suggestions
of their findings.
"""

from __future__ import annotations

from graphdoctor.facts.base import grouped as grouped
from graphdoctor.facts.guards import distinct_values as distinct_values
from graphdoctor.wording import (
    bytes_text as bytes_text,
    counted as counted,
    factor_text as factor_text,
    names as names,
    percent as percent,
    quoted as quoted,
    ranks_text as ranks_text,
    times as times,
    without_middle as without_middle,
)
from graphdoctor.rules.diagnosis.recompiles import (
    RecompileEvent as RecompileEvent,
    RecompileGroup as RecompileGroup,
    can_be_dynamic as can_be_dynamic,
    hidden_change_count as hidden_change_count,
    is_specialized as is_specialized,
)
from graphdoctor.rules.diagnosis.rule import (
    CUDA_GRAPHS as CUDA_GRAPHS,
    BreakRule as BreakRule,
    BreakSite as BreakSite,
    Fixes as Fixes,
    GapPage as GapPage,
    Matches as Matches,
    RecompileRule as RecompileRule,
    RecordingRule as RecordingRule,
    RecordingView as RecordingView,
    RuleMatch as RuleMatch,
    shortened as shortened,
)
from graphdoctor.rules.diagnosis.suggestions import (
    BEFORE_SHARDING as BEFORE_SHARDING,
    INSIDE_DDP as INSIDE_DDP,
    OUTSIDE as OUTSIDE,
    OWN_FUNCTION as OWN_FUNCTION,
    REGIONAL as REGIONAL,
    SORT_IN_GRAPH as SORT_IN_GRAPH,
    SKIP_ALL as SKIP_ALL,
    SKIP_INBUILT as SKIP_INBUILT,
    WITHIN_CALL as WITHIN_CALL,
    call_before as call_before,
    call_fix as call_fix,
    code_fix as code_fix,
    compile_argument as compile_argument,
    config_fix as config_fix,
    from_setting as from_setting,
    guard_filter as guard_filter,
    in_bfloat16 as in_bfloat16,
    guard_while_compiling as guard_while_compiling,
    keep_out as keep_out,
    max_autotune as max_autotune,
    rewritten as rewritten,
    setting as setting,
    sources_setting as sources_setting,
    spliced as spliced,
)
