#include "trireme/spec/keys.h"

// DeepSpeed's and Megatron's keys that people write and that are not built. Each is refused as "not supported yet"; the
// values beside it are accepted, because with them a run without the feature does exactly what the file says.
namespace trireme::spec {

namespace {

using base::Json;

struct Row {
  const char* path;
  const char* off;  // a JSON list
  const char* sentence;
};

void add(KeyTable& table, std::initializer_list<Row> rows) {
  for (const Row& row : rows)
    table.push_back(later(row.path, Json::parse(row.off).get<std::vector<Json>>(), row.sentence));
}

/// fp16.*: checked although the block must be off, so that a nonsense value is not carried along.
void add_fp16_keys(KeyTable& t) {
  t.push_back(switched("fp16", "Training in fp16 with a loss scale."));
  t.push_back(dormant("fp16.auto_cast", Kind::Flag, "Cast inputs."));
  t.push_back(dormant("fp16.loss_scale", Kind::Number, "Fixed loss scale; 0: dynamic.").within(0, 1e30));
  t.push_back(
      dormant("fp16.initial_scale_power", Kind::Integer, "First dynamic scale as a power of 2.").between(0, 126));
  t.push_back(
      dormant("fp16.loss_scale_window", Kind::Integer, "Steps without overflow before the scale doubles.").at_least(1));
  t.push_back(dormant("fp16.hysteresis", Kind::Integer, "Overflows before the scale halves.").at_least(1));
  t.push_back(dormant("fp16.consecutive_hysteresis", Kind::Flag, "Refill hysteresis at each good step."));
  t.push_back(dormant("fp16.min_loss_scale", Kind::Number, "Smallest dynamic scale.").above(0, 1e30));
  t.push_back(dormant("fp16.fp16_master_weights_and_grads", Kind::Flag, "Masters in fp16."));
  for (const std::string block : {"bf16", "bfloat16"}) {
    t.push_back(switched(block, "Training in bf16."));
    t.push_back(dormant(block + ".check_grad_overflow", Kind::Flag, "Look for non-finite gradients."));
    t.push_back(dormant(block + ".immediate_grad_update", Kind::Flag, "Accumulate in fp32 during backward."));
    t.push_back(dormant(block + ".bf16_master_weights_and_grads", Kind::Flag, "Masters in bf16."));
    t.push_back(dormant(block + ".bf16_optimizer_states", Kind::Flag, "Optimizer state in bf16."));
  }
  t.push_back(switched("torch_autocast", "PyTorch's automatic mixed precision."));
  t.push_back(dormant("torch_autocast.dtype", Kind::Text, "16-bit type.").one_of({"bfloat16", "float16"}));
  t.push_back(dormant("torch_autocast.lower_precision_safe_modules", Kind::Any, "Modules that run in 16 bits."));
  t.push_back(switched("amp", "Apex's mixed precision."));
  t.push_back(dormant("amp.opt_level", Kind::Text, "Apex's level."));
}

}  // namespace

void add_later_keys(KeyTable& t) {
  add_fp16_keys(t);
  add(t, {
             {"optimizer.legacy_fusion", "[false]", "Old fused fp16 optimizer."},
             {"optimizer.params.torch_adam", "[false]", "There is one implementation of Adam."},
             {"optimizer.params.amsgrad", "[false]", "AMSGrad."},
             {"optimizer.params.maximize", "[false]", "Gradient ascent."},
             {"optimizer.params.max_grad_norm", "[]", "DeepSpeed refuses it too: use gradient_clipping."},
             {"optimizer.params.foreach", "[null]", "PyTorch's choice of kernels."},
             {"optimizer.params.fused", "[null]", "PyTorch's choice of kernels."},
             {"optimizer.params.capturable", "[false]", "CUDA graphs."},
             {"optimizer.params.differentiable", "[false]", "Backward through the optimizer."},
             {"optimizer.params.set_grad_none", "[true]", "The trainer zeroes its buckets itself."},
             {"optimizer.params.fp32_optimizer_states", "[true]", "Optimizer state in 16 bits."},
             {"optimizer.params.freeze_step", "[]", "1-bit Adam and LAMB."},
             {"optimizer.params.cuda_aware", "[false]", "1-bit Adam and LAMB."},
             {"optimizer.params.comm_backend_name", "[]", "1-bit Adam and LAMB."},
             {"optimizer.params.var_freeze_step", "[]", "0/1 Adam."},
             {"optimizer.params.var_update_scaler", "[]", "0/1 Adam."},
             {"optimizer.params.local_step_scaler", "[]", "0/1 Adam."},
             {"optimizer.params.local_step_clipper", "[]", "0/1 Adam."},
             {"optimizer.params.max_coeff", "[]", "LAMB."},
             {"optimizer.params.min_coeff", "[]", "LAMB."},
             {"optimizer.params.coeff_beta", "[]", "1-bit LAMB."},
             {"optimizer.params.factor_max", "[]", "1-bit LAMB."},
             {"optimizer.params.factor_min", "[]", "1-bit LAMB."},
             {"optimizer.params.factor_threshold", "[]", "1-bit LAMB."},
             {"scheduler.params.last_batch_iteration", "[-1]", "A run resumes from its checkpoint."},
             {"scheduler.params.lr_range_test_min_lr", "[]", "LRRangeTest."},
             {"scheduler.params.lr_range_test_step_size", "[]", "LRRangeTest."},
             {"scheduler.params.lr_range_test_step_rate", "[]", "LRRangeTest."},
             {"scheduler.params.lr_range_test_staircase", "[]", "LRRangeTest."},
             {"scheduler.params.cycle_min_lr", "[]", "OneCycle."},
             {"scheduler.params.cycle_max_lr", "[]", "OneCycle."},
             {"scheduler.params.decay_lr_rate", "[]", "OneCycle."},
             {"scheduler.params.cycle_first_step_size", "[]", "OneCycle."},
             {"scheduler.params.cycle_second_step_size", "[]", "OneCycle."},
             {"scheduler.params.cycle_first_stair_count", "[]", "OneCycle."},
             {"scheduler.params.cycle_second_stair_count", "[]", "OneCycle."},
             {"scheduler.params.decay_step_size", "[]", "OneCycle."},
             {"scheduler.params.cycle_momentum", "[]", "OneCycle."},
             {"scheduler.params.cycle_min_mom", "[]", "OneCycle."},
             {"scheduler.params.cycle_max_mom", "[]", "OneCycle."},
             {"scheduler.params.decay_mom_rate", "[]", "OneCycle."},
         });
  add(t, {
             {"zero_optimization.allgather_partitions", "[true]", "ZeRO 1 to 3."},
             {"zero_optimization.allgather_bucket_size", "[500000000]", "ZeRO 1 to 3."},
             {"zero_optimization.use_multi_rank_bucket_allreduce", "[true]", "ZeRO 1 and 2."},
             {"zero_optimization.reduce_scatter", "[true]", "ZeRO 1 to 3; stage 0 always all-reduces."},
             {"zero_optimization.contiguous_gradients", "[true]", "Gradients always lie in flat buckets."},
             {"zero_optimization.sub_group_size", "[1000000000]", "ZeRO 3."},
             {"zero_optimization.offload_optimizer", R"([null, {}, {"device": "none"}])",
              "Optimizer state in another memory."},
             {"zero_optimization.offload_param", R"([null, {}, {"device": "none"}])", "Parameters in another memory."},
             {"zero_optimization.cpu_offload", "[null, false]", "Deprecated name of offload_optimizer."},
             {"zero_optimization.cpu_offload_param", "[null, false]", "Deprecated name of offload_param."},
             {"zero_optimization.cpu_offload_use_pin_memory", "[null, false]", "Offload."},
             {"zero_optimization.stage3_prefetch_bucket_size", "[50000000]", "ZeRO 3."},
             {"zero_optimization.stage3_param_persistence_threshold", "[100000]", "ZeRO 3."},
             {"zero_optimization.stage3_model_persistence_threshold", "[9223372036854775807]", "ZeRO 3."},
             {"zero_optimization.stage3_max_live_parameters", "[1000000000]", "ZeRO 3."},
             {"zero_optimization.stage3_max_reuse_distance", "[1000000000]", "ZeRO 3."},
             {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "[false]",
              "ZeRO 3; the export always has every weight."},
             {"zero_optimization.stage3_gather_fp16_weights_on_model_save", "[false]",
              "Deprecated name of the key above."},
             {"zero_optimization.stage3_use_all_reduce_for_fetch_params", "[false]", "ZeRO 3."},
             {"zero_optimization.module_granularity_threshold", "[0]", "ZeRO 3."},
             {"zero_optimization.use_all_reduce_for_fetch_params", "[false]", "ZeRO 3."},
             {"zero_optimization.round_robin_gradients", "[false]", "ZeRO 1 and 2."},
             {"zero_optimization.ignore_unused_parameters", "[true]", "Unused parameters are always legal."},
             {"zero_optimization.elastic_checkpoint", "[false]", "Any layout loads any checkpoint without it."},
             {"zero_optimization.load_from_fp32_weights", "[true]", "Weights are fp32."},
             {"zero_optimization.legacy_stage1", "[false]", "Old ZeRO 1."},
             {"zero_optimization.zero_hpz_partition_size", "[1]", "ZeRO++."},
             {"zero_optimization.zero_quantized_weights", "[false]", "ZeRO++."},
             {"zero_optimization.zero_quantized_nontrainable_weights", "[false]", "ZeRO++."},
             {"zero_optimization.zero_quantized_gradients", "[false]", "ZeRO++."},
             {"zero_optimization.zeropp_loco_param", "[null]", "ZeRO++."},
             {"zero_optimization.mics_shard_size", "[-1]", "MiCS."},
             {"zero_optimization.mics_hierarchical_params_gather", "[false]", "MiCS."},
             {"zero_optimization.memory_efficient_linear", "[true]", "ZeRO 3."},
             {"zero_optimization.pipeline_loading_checkpoint", "[false]", "ZeRO 3."},
             {"zero_optimization.override_module_apply", "[true]", "ZeRO 3."},
             {"zero_optimization.log_trace_cache_warnings", "[false]", "ZeRO 3."},
             {"zero_optimization.leaf_module", "[]", "ZeRO 3."},
             {"zero_optimization.zenflow", "[null]", "ZenFlow."},
             {"zero_allow_untested_optimizer", "[false]",
              "Every optimizer that is built works with every stage that is built."},
             {"zero_force_ds_cpu_optimizer", "[true]", "Offload."},
         });
  add(t, {
             {"managed_gradient_accumulation", "[true]", "An accumulation that the caller ends."},
             {"communication_data_type", R"([null, "fp32"])", "Gradients in 16 bits on the wire."},
             {"seq_parallel_communication_data_type", R"([null, "fp32"])", "Sequence parallel."},
             {"prescale_gradients", "[false]", "Gradients are divided once, by the number of items."},
             {"gradient_predivide_factor", "[1.0]", "Gradients are divided once, by the number of items."},
             {"gradient_allreduce_op", R"(["mean"])", "Sums over ranks."},
             {"sparse_gradients", "[false]", "Sparse embedding gradients."},
             {"disable_allgather", "[false]", "Old all-gather."},
             {"data_types.grad_accum_dtype", R"([null, "fp32"])", "Gradients accumulate in fp32."},
             {"wall_clock_breakdown", "[false]", "metrics.jsonl has the split of every step."},
             {"memory_breakdown", "[false]", "metrics.jsonl has peak_rss_bytes of every step."},
             {"dump_state", "[false]", "The resolved config is in the run folder."},
             {"use_data_before_expert_parallel", "[false]", "Expert parallel."},
             {"activation_checkpointing.partition_activations", "[false]", "Recomputation."},
             {"activation_checkpointing.cpu_checkpointing", "[false]", "Recomputation."},
             {"activation_checkpointing.contiguous_memory_optimization", "[false]", "Recomputation."},
             {"activation_checkpointing.number_checkpoints", "[null]", "Recomputation."},
             {"activation_checkpointing.synchronize_checkpoint_boundary", "[false]", "Recomputation."},
             {"activation_checkpointing.profile", "[false]", "Recomputation."},
             {"pipeline", "[null, {}]", "Pipeline parallel."},
             {"tensor_parallel", R"([null, {}, {"autotp_size": 0}, {"autotp_size": 1}])",
              "Tensor parallel; see parallel.tensor_model_parallel_size."},
             {"sequence_parallel_size", "[1]", "Sequence parallel."},
             {"parallel.sequence_parallel", "[false]", "Sequence parallel."},
             {"parallel.virtual_pipeline_model_parallel_size", "[null]", "Interleaved pipeline stages."},
             {"parallel.num_layers_per_virtual_pipeline_stage", "[null]", "Interleaved pipeline stages."},
             {"parallel.num_virtual_stages_per_pipeline_rank", "[null]", "Interleaved pipeline stages."},
             {"parallel.pipeline_model_parallel_layout", "[null]", "Which layers a pipeline stage has."},
             {"parallel.hierarchical_context_parallel_sizes", "[null]", "Context parallel."},
             {"parallel.cp_comm_type", "[null]", "Context parallel."},
             {"checkpoint.tag_validation", "[]", "Checkpoints have no tags."},
             {"checkpoint.load_universal", "[false]", "Any layout loads any checkpoint without it."},
             {"checkpoint.use_node_local_storage", "[false]", "Checkpoints on each host."},
             {"checkpoint.parallel_write", R"([null, {}, {"pipeline_stage": false}])", "Parallel writes."},
             {"memory.shared_parameters", R"([false, "auto"])",
              "One physical copy of the parameters a host; stage 0 keeps a copy a rank."},
             {"aio", "[null, {}]", "Offload to NVMe."},
             {"data_efficiency", R"([null, {}, {"enabled": false}])", "Curricula and token dropping."},
             {"compression_training", "[null, {}]", "Compressed models."},
             {"quantize_training", R"([null, {}, {"enabled": false}])", "Quantised models."},
             {"sparse_attention", "[null, {}]", "Sparse attention."},
             {"autotuning", R"([null, {}, {"enabled": false}])", "Autotuning."},
             {"nebula", R"([null, {}, {"enabled": false}])", "Checkpoint service."},
             {"datastates_ckpt", "[null]", "Checkpoint service."},
             {"comms_logger", R"([null, {"enabled": false}])", "A log of every collective."},
             {"gradient_accumulation_dtype", R"([null, "fp32"])", "Gradients accumulate in fp32."},
         });
  for (const auto& [block, sentence] : std::vector<std::pair<const char*, const char*>>{
           {"flops_profiler", "Profiler."},
           {"tensorboard", "TensorBoard files."},
           {"wandb", "Weights & Biases."},
           {"csv_monitor", "CSV files."},
           {"comet", "Comet."},
           {"elasticity", "A changing number of ranks."},
           {"curriculum_learning", "Curricula."},
           {"progressive_layer_drop", "Layers left out at random."},
           {"eigenvalue", "Eigenvalues of layers."},
           {"hybrid_engine", "Training and inference in one."},
           {"compile", "Compiled modules."},
           {"expert_parallel", "Experts."},
           {"weight_quantization", "Quantised weights."},
       }) {
    t.push_back(switched(block, sentence));
  }
}

}  // namespace trireme::spec
