"""The kinds of records in torch's trace log, and which of them a report shows.

Torch 2.6 to 2.15, from every call of ``trace_structured``, ``dtrace_structured`` and ``trace_structured_artifact``. A
kind that isn't here is counted under its own name.
"""

from __future__ import annotations

OWN_PREFIX = "graphdoctor_"

_SHOWN = frozenset(
    {
        *("str", "torch_version", "dynamo_start", "compilation_metrics", "recompile_reasons", "chromium_event"),
        *("dynamo_graph_break_reason", "dynamo_error", "dynamo_output_graph", "dynamo_cpp_guards_str"),
        *("aot_joint_graph", "aot_forward_graph", "aot_backward_graph", "aot_inference_graph"),
        *("inductor_post_grad_graph", "inductor_output_code", "inductor_provenance_tracking_node_mappings"),
        *("fx_graph_cache_hit", "fx_graph_cache_miss", "fx_graph_cache_bypass", "fx_graph_cache_disabled"),
        *("fx_graph_bundled_cache_hit", "dynamo_cache_bypass", "dynamo_cache_exception", "precompile_cache_bypass"),
        *("aotautograd_cache_hit", "aotautograd_cache_miss", "aotautograd_cache_bypass"),
        *("aotautograd_cache_pickle_failure", "create_symbol", "create_unbacked_symbol"),
        *("symbolic_shape_specialization", "guard_added", "guard_added_fast", "guard_on_data_dependent_error"),
        *("propagate_real_tensors", "propagate_real_tensors_provenance", "missing_fake_kernel"),
        *("mismatched_fake_kernel", "export", "exported_program", "inductor_collective_schedule"),
        *("inductor_runtime_and_tensor_meta", "graph_execution", "triton_kernel_info"),
        *("inductor_spmd_graph_mismatch", "optimize_ddp_split_graph", "optimize_ddp_split_child"),
    }
)

MEANINGS: dict[str, str] = {
    "fx_graph_runnable": "a script that compiles the graph by itself",
    "before_pre_grad_graph": "the graph before Inductor's passes on Dynamo's graph",
    "after_pre_grad_graph": "the graph after Inductor's passes on Dynamo's graph",
    "before_joint_graph": "the graph before Inductor's passes on forward and backward together",
    "after_joint_graph": "the graph after Inductor's passes on forward and backward together",
    "before_post_grad_graph": "the graph before Inductor's passes on AOTAutograd's graph",
    "inductor_provenance_tracking_kernel_stack_traces": "the lines that each kernel comes from",
    "torch._functorch.config": "AOTAutograd's settings",
    "aot_forward_graph_fw_metadata": "what AOTAutograd knows of inputs and outputs",
    "aot_forward_graph_fw_subclass_metadata": "what AOTAutograd knows of tensor subclasses",
    "bwd_compilation_metrics": "what compiling the backward graph took",
    "min_cut_information": "what the partitioner keeps for the backward pass",
    "runtime_wrapper_orchestration": "the code that calls the compiled graph",
    "dynamo_side_effects": "side effects that Dynamo replays after the graph",
    "compiler_collective": "what ranks agreed on while compiling",
    "compiled_autograd_graph": "the backward pass as compiled autograd captured it",
    "graph_dump": "code for AOTInductor, or a graph of another tool",
    "describe_tensor": "a tensor that the compiler met",
    "describe_storage": "the storage of a tensor that the compiler met",
    "describe_source": "where a tensor that the compiler met comes from",
    "expression_created": "an operation on sizes",
    "dump_file": "code that was compiled, under the name that stacks have for it",
    "link": "an address that the program noted",
    "get_local_code_state": "the profile of sizes that an earlier run left",
    "put_local_code_state": "the profile of sizes that this run leaves",
    "*_ORIGINAL_BYTECODE": "a function's bytecode before Dynamo",
    "*_MODIFIED_BYTECODE": "a function's bytecode after Dynamo",
}
"""What is in records of kinds that a report doesn't show, where the name alone doesn't tell."""

TORCH_KINDS: frozenset[str] = (
    _SHOWN
    | frozenset(MEANINGS)
    | frozenset(
        {
            *("after_activation_quantization_bwd_aten_pass", "after_activation_quantization_fwd_aten_pass"),
            *("aot_inference_graph_after_hop_passes", "aot_joint_graph_sync_decision_cross_ranks"),
            *("aot_saved_tensors_hooks_graphs", "aot_autograd_backward_compilation_metrics", "backward_epilogue"),
            *("backward_prologue", "before_activation_quantization_bwd_aten_pass"),
            *("before_activation_quantization_fwd_aten_pass", "compile_worker_sidecar_death"),
            *("compile_worker_status", "compiled_autograd_compile_reasons", "compiled_autograd_graph_pre_reordering"),
            *("compiled_fn_wrapper", "compiled_function_backward", "compiled_function_forward"),
            *("dynamo_cache_entries", "dynamo_guards", "eager_compile_backwards_failure", "fusion_regions_after"),
            *("fusion_regions_before", "fx_bucketing_passes_all_gather_buckets"),
            *("fx_bucketing_passes_reduce_scatter_buckets", "fx_compute_nodes_runtime_estimation"),
            *("fx_interpreter_error", "fx_net_acc_splitter_finder_events", "get_extra_remote_code_state"),
            *("get_remote_code_state", "inductor_aot_kernel_code", "inductor_aot_wrapper_code"),
            *("inductor_autotune_at_compile_time_code", "inductor_fx_passes_overlap_bucketing"),
            *("inductor_overlap_cyclic_extra_deps", "aoti_compile_fx"),
            *("invoke_subgraph_backward_duplicate", "make_fx_fail_partial", "min_cut_failed_edge_list"),
            *(
                "min_cut_failed_fx_graph",
                "min_cut_failed_svg",
                "output_alias_wrapper",
                "overlap_scheduling_graph_after",
            ),
            *("overlap_scheduling_graph_before", "pge_profile_vs_analytical", "post_decomp_comms"),
            *("pre_bucketing_collective_sizes", "pre_bucketing_collective_sizes_after"),
            *("pre_bucketing_fsdp_collectives", "pre_decomp_comms", "put_remote_code_state"),
            *("reorder_communication_preserving_peak_memory", "scheduler_nodes_before_comm_overlap"),
            *("aot_autograd_runtime_wrappers", "native_dsl_compile", "sink_waits_iterative_info"),
        }
    )
)

UNSHOWN_KINDS = TORCH_KINDS - _SHOWN
"""Those of them that a report only counts."""

_FAMILIES = ("_ORIGINAL_BYTECODE", "_MODIFIED_BYTECODE")
"""Endings of kinds that begin with the name of a function."""


def family_of(kind: str) -> str:
    """The kind to count a record under: ``*_ORIGINAL_BYTECODE`` for that of any function."""
    return next((f"*{ending}" for ending in _FAMILIES if kind.endswith(ending)), kind)


def is_shown(kind: str) -> bool:
    """Whether a report, its page or its JSON has what records of a kind say."""
    return kind in _SHOWN or kind.startswith(OWN_PREFIX)
