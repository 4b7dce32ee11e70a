"""Names that other flows have, of passes and of their arguments, and what to write here."""

_REPORT = "print(graph)"
_SPARSITY = "report_sparsity_analysis_pass(graph, data=data)"
_EMITTED = "mase_hw.emit_verilog(graph, output=folder), which writes the whole project"
_CHECKED = "verify_analysis_pass(graph); emission runs it"
_FILE = "graph.save(path) and MaseGraph.load(path)"
_RUNTIME = "mase_hw.export_onnx(graph, path), and ONNX Runtime"

ELSEWHERE = {
    "add_natural_sparsity_metadata_analysis_pass": _SPARSITY,
    "add_pruning_metadata_analysis_pass": _SPARSITY,
    "calculate_avg_bits_mg_analysis_pass": "report_quantization_analysis_pass(graph, data=data)",
    "conv_bn_fusion_transform_pass": "mase_hw.emit.flow.canonicalize(graph); quantize runs it",
    "emit_bram_transform_pass": _EMITTED,
    "emit_cocotb_transform_pass": _EMITTED,
    "emit_internal_rtl_transform_pass": _EMITTED,
    "emit_mlir_hls_transform_pass": _EMITTED,
    "emit_verilog_tb_transform_pass": _EMITTED,
    "emit_verilog_top_transform_pass": _EMITTED,
    "get_synthesis_results": "mase_hw.synthesize(project)",
    "hook_inspection_analysis_pass": _SPARSITY,
    "load_mase_graph_interface_pass": _FILE,
    "load_node_meta_param_interface_pass": _FILE,
    "onnx_annotate_transform_pass": "mase_hw.export_onnx(graph, path)",
    "onnx_runtime_interface_pass": _RUNTIME,
    "profile_statistics_analysis_pass": "add_software_metadata_analysis_pass(graph, data=data)",
    "prune_detach_hook_transform_pass": "nothing: zeros stay in the weights",
    "raise_granularity_transform_pass": "nothing: a captured graph is of operators already",
    "report_graph_analysis_pass": _REPORT,
    "report_node_hardware_type_analysis_pass": _REPORT,
    "report_node_meta_param_analysis_pass": "node.meta['mase']; print(graph) shows most of it",
    "report_node_shape_analysis_pass": _REPORT,
    "report_node_type_analysis_pass": "report_operators_analysis_pass(graph)",
    "report_trainable_parameters_analysis_pass": "count_parameters_analysis_pass(graph)",
    "run_cosim_analysis_pass": "mase_hw.simulate(project)",
    "runtime_analysis_pass": "mase-hw profile, or mase_hw.simulate(project)",
    "save_mase_graph_interface_pass": _FILE,
    "save_node_meta_param_interface_pass": _FILE,
    "summarize_quantization_analysis_pass": "report_quantization_analysis_pass(graph, data=data)",
    "tensorrt_calibrate_transform_pass": "calibrate_analysis_pass(graph, config=config, data=data)",
    "tensorrt_engine_interface_pass": _RUNTIME,
    "tensorrt_fake_quantize_transform_pass": "quantize_transform_pass(graph, config)",
    "tensorrt_fine_tune_transform_pass": "mase_hw.training.Trainer(...).fit(graph, inputs, labels)",
    "verify_common_metadata_analysis_pass": _CHECKED,
    "verify_hardware_metadata_analysis_pass": _CHECKED,
    "verify_metadata_analysis_pass": _CHECKED,
    "verify_software_metadata_analysis_pass": _CHECKED,
}

KEYWORDS = {
    "granularity": "leave it out: single elements; prune_structure_transform_pass takes channels",
    "dummy_in": "leave it out: trace(model, example_inputs) has seen the example inputs",
    "add_value": "leave it out: values are observed by add_software_metadata_analysis_pass",
}
