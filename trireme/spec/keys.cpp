#include "trireme/spec/keys.h"

namespace trireme::spec {

namespace {

constexpr int64_t int_max = 2'147'483'647;

// NOLINTBEGIN: one row a key
#define PLACE(expression)  \
  [](Draft & d) -> auto& { \
    return d.expression;   \
  }

void add_top_keys(KeyTable& t) {
  t.push_back(
      built("train_batch_size", PLACE(config.train_batch_size),
            "Samples an optimizer step over all ranks: train_micro_batch_size_per_gpu x "
            "gradient_accumulation_steps x data-parallel ranks. Any two of the three give the third; one of the two "
            "batch sizes alone means accumulation 1.")
          .between(1, int_max)
          .in("samples")
          .derived("from the other two"));
  t.push_back(
      built("train_micro_batch_size_per_gpu", PLACE(config.micro_batch_size), "Samples of one forward on one rank.")
          .between(1, int_max)
          .in("samples")
          .derived("from the other two"));
  t.push_back(built("gradient_accumulation_steps", PLACE(config.gradient_accumulation_steps),
                    "Micro-batches of one rank in an optimizer step.")
                  .between(1, int_max)
                  .in("micro-batches")
                  .derived("from the other two"));
  t.push_back(built("gradient_clipping", PLACE(config.gradient_clipping),
                    "Gradients are scaled down so that their global 2-norm is at most this. 0: off.")
                  .within(0, 1e9));
  t.push_back(built("steps_per_print", PLACE(config.steps_per_print),
                    "A progress line every so many steps (metrics.jsonl has every step). 0: only the last step.")
                  .at_least(0)
                  .in("steps")
                  .or_null());
}

void add_optimizer_keys(KeyTable& t) {
  t.push_back(built("optimizer.type", PLACE(config.optimizer.type),
                    "In any case. \"Adam\" decays like AdamW unless adam_w_mode is false, as in DeepSpeed.")
                  .one_of({"adamw", "adam", "sgd"},
                          {"lamb",   "lion",    "adagrad", "muon",     "onebitadam", "onebitlamb", "zerooneadam",
                           "muadam", "muadamw", "musgd",   "adadelta", "adafactor",  "adamax",     "asgd",
                           "lbfgs",  "nadam",   "radam",   "rmsprop",  "rprop",      "sparseadam"})
                  .case_free());
  t.push_back(built("optimizer.params.lr", PLACE(config.optimizer.lr),
                    "Learning rate; the peak of a schedule that has none of its own.")
                  .above(0, 1e3));
  t.push_back(built("optimizer.params.betas", PLACE(betas), "Decay rates of the first and second moment.")
                  .below(0, 1)
                  .only({"adamw", "adam"}));
  t.push_back(built("optimizer.params.eps", PLACE(config.optimizer.eps), "Added to the root of the second moment.")
                  .above(0, 1)
                  .only({"adamw", "adam"}));
  t.push_back(built("optimizer.params.weight_decay", PLACE(config.optimizer.weight_decay),
                    "Decay of every parameter that the job's parameter_group does not exempt. DeepSpeed's default also "
                    "for AdamW.")
                  .within(0, 1e3));
  t.push_back(built("optimizer.params.adam_w_mode", PLACE(adam_w_mode),
                    "false: weight decay is added to the gradient (Adam); true: decoupled from it (AdamW).")
                  .only({"adamw", "adam"}));
  t.push_back(built("optimizer.params.bias_correction", PLACE(config.optimizer.bias_correction),
                    "Divide the moments by 1 - beta^t.")
                  .only({"adamw", "adam"}));
  t.push_back(built("optimizer.params.momentum", PLACE(config.optimizer.momentum), "Momentum of SGD.")
                  .below(0, 1)
                  .only({"sgd"}));
  t.push_back(built("optimizer.params.dampening", PLACE(config.optimizer.dampening), "Dampening of SGD's momentum.")
                  .within(0, 1)
                  .only({"sgd"}));
  t.push_back(built("optimizer.params.nesterov", PLACE(config.optimizer.nesterov),
                    "Nesterov momentum; needs momentum above 0 and dampening 0.")
                  .only({"sgd"}));
}

void add_scheduler_keys(KeyTable& t) {
  const std::vector<std::string> with_peak = {"WarmupLR", "WarmupDecayLR"};
  const std::vector<std::string> with_end = {"WarmupDecayLR", "WarmupCosineLR"};
  const std::vector<std::string> all = {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"};
  t.push_back(built("scheduler.type", PLACE(scheduler.type),
                    "Formulas: trireme/spec/schedule.h. \"constant\" is optimizer.params.lr at every step.")
                  .one_of({"constant", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR"}, {"LRRangeTest", "OneCycle"}));
  t.push_back(built("scheduler.params.warmup_min_lr", PLACE(scheduler.warmup_min_lr), "Rate at the first step.")
                  .within(0, 1e3)
                  .only(with_peak));
  t.push_back(built("scheduler.params.warmup_max_lr", PLACE(scheduler.warmup_max_lr), "Rate after the warm-up.")
                  .above(0, 1e3)
                  .derived("optimizer.params.lr")
                  .only(with_peak)
                  .or_null());
  t.push_back(built("scheduler.params.warmup_num_steps", PLACE(scheduler.warmup_num_steps),
                    "Length of the warm-up. 0: begin at the peak.")
                  .at_least(0)
                  .in("optimizer steps")
                  .only(all));
  t.push_back(built("scheduler.params.warmup_type", PLACE(warmup_type), "Shape of the warm-up.")
                  .one_of({"log", "linear"})
                  .only(all));
  t.push_back(built("scheduler.params.total_num_steps", PLACE(scheduler.total_num_steps), "Where the decay ends.")
                  .at_least(1)
                  .in("optimizer steps")
                  .derived("training.steps")
                  .only(with_end));
  t.push_back(built("scheduler.params.warmup_min_ratio", PLACE(scheduler.warmup_min_ratio),
                    "Rate at the first step as a fraction of optimizer.params.lr.")
                  .within(0, 1)
                  .only({"WarmupCosineLR"}));
  t.push_back(built("scheduler.params.cos_min_ratio", PLACE(scheduler.cos_min_ratio),
                    "Rate at the end as a fraction of optimizer.params.lr.")
                  .within(0, 1)
                  .only({"WarmupCosineLR"}));
  t.push_back(built("scheduler.scale_lr_with_batch.reference_batch", PLACE(scale.reference_batch),
                    "All rates of the file are meant for batches of this size; they are multiplied by train_batch_size "
                    "/ reference_batch "
                    "(accumulation counts) under the rule. The factor is computed from the file each time, so a "
                    "resumed run is not scaled twice.")
                  .between(1, int_max)
                  .in("samples")
                  .derived("required in this block")
                  .not_auto());
  t.push_back(built("scheduler.scale_lr_with_batch.rule", PLACE(scale_rule),
                    "linear: the factor itself; sqrt: its square root; none: 1.")
                  .one_of({"linear", "sqrt", "none"})
                  .not_auto());
}

void add_parallel_keys(KeyTable& t) {
  t.push_back(built("parallel.tensor_model_parallel_size", PLACE(tp),
                    "Ranks that share each layer's matrices; only 1 is built.")
                  .between(1, 65536));
  t.push_back(
      built("parallel.pipeline_model_parallel_size", PLACE(pp), "Pipeline stages; only 1 is built.").between(1, 65536));
  t.push_back(built("parallel.context_parallel_size", PLACE(cp), "Ranks that share each sequence; only 1 is built.")
                  .between(1, 65536));
  t.push_back(built("parallel.expert_model_parallel_size", PLACE(ep), "Ranks that share the experts; only 1 is built.")
                  .between(1, 65536));
  t.push_back(built("parallel.expert_tensor_parallel_size", PLACE(etp),
                    "Ranks that share each expert's matrices; only 1 is built.")
                  .between(1, 65536));
}

void add_own_blocks(KeyTable& t) {
  t.push_back(built("zero_optimization.stage", PLACE(config.zero.stage),
                    "What data-parallel ranks share out: 0 nothing, 1 optimizer state, 2 and gradients, "
                    "3 and parameters; only 0 is built.")
                  .between(0, 3));
  t.push_back(built("zero_optimization.reduce_bucket_size", PLACE(reduce_bucket_size),
                    "Gradients are reduced in buckets of about this size.")
                  .at_least(1)
                  .in("elements")
                  .derived("at least 8 buckets a model")
                  .or_null());
  t.push_back(built("zero_optimization.overlap_comm", PLACE(config.zero.overlap_comm),
                    "Reduce buckets while backward still runs.")
                  .or_null());
  t.push_back(built("training.steps", PLACE(config.training.steps), "Optimizer steps in all; `train --steps` sets it.")
                  .at_least(0)
                  .in("optimizer steps")
                  .derived("required by train"));
  t.push_back(
      built("training.seed", PLACE(config.training.seed), "Initial weights, data order and dropout follow from it.")
          .between(0, std::numeric_limits<int64_t>::max()));
  t.push_back(built("training.evaluate_every", PLACE(config.training.evaluate_every),
                    "Validation loss every so many steps. 0: at the end only.")
                  .at_least(0)
                  .in("optimizer steps"));
  t.push_back(built("training.evaluate_batches", PLACE(config.training.evaluate_batches),
                    "Micro-batches a rank in each evaluation. 0: the whole validation part.")
                  .at_least(0)
                  .in("micro-batches"));
  t.push_back(built("training.sample_length", PLACE(config.training.sample_length),
                    "Text sampled from the model after the run. 0: none.")
                  .between(0, int_max)
                  .in("tokens"));
  t.push_back(built("data.path", PLACE(config.data.path), "The training data; `train --data` sets it.")
                  .derived("required by train for gpt2")
                  .not_auto());
  t.push_back(built("data.format", PLACE(config.data.format),
                    "text: one token a byte; uint16: nanoGPT's raw .bin; llmc: llm.c's .bin with a header; auto: by "
                    "name and header.")
                  .one_of({"auto", "text", "uint16", "llmc"}));
  t.push_back(built("data.validation_fraction", PLACE(config.data.validation_fraction),
                    "The tail of the data that is not trained on; for mlp so many samples more.")
                  .below(0, 1));
  t.push_back(
      built("data.shuffle", PLACE(config.data.shuffle), "A new order each epoch, a pure function of seed and epoch."));
  t.push_back(
      built("data.drop_last", PLACE(config.data.drop_last), "Leave out an epoch's last batch if it is not full."));
  t.push_back(built("data.sequence_length", PLACE(config.data.sequence_length), "Tokens a sample, at most n_positions.")
                  .between(0, int_max)
                  .in("tokens")
                  .derived("n_positions"));
  t.push_back(
      built("data.samples", PLACE(config.data.samples), "How many synthetic samples there are (model_type mlp).")
          .at_least(1)
          .in("samples"));
  t.push_back(built("checkpoint.every", PLACE(config.checkpoint.every),
                    "A checkpoint every so many steps. 0: at the last step only.")
                  .at_least(0)
                  .in("optimizer steps"));
  t.push_back(built("checkpoint.keep", PLACE(config.checkpoint.keep), "Newest whole checkpoints that stay.")
                  .between(1, 1'000'000)
                  .in("checkpoints"));
  t.push_back(built("communication.backend", PLACE(config.communication.backend),
                    "auto: shm where all ranks share a host, else gloo.")
                  .one_of({"auto", "shm", "gloo"}, {"nccl", "mpi", "ucc", "ccl", "hccl"}));
  t.push_back(built("communication.timeout", PLACE(config.communication.timeout),
                    "Longest wait for a peer, such as \"30s\" or \"10min\"."));
  t.push_back(built("communication.first_step_timeout", PLACE(config.communication.first_step_timeout),
                    "The same during the first step."));
  t.push_back(built("communication.algorithm_table", PLACE(config.communication.algorithm_table),
                    "A file as `trireme bench comm --table` prints it, for the shm backend. Without: measured once for "
                    "this processor and number of ranks, and kept."));
  t.push_back(built("logging.level", PLACE(config.logging.level), "The least important lines that are printed.")
                  .one_of({"debug", "info", "warning", "error"}));
}

void add_gpt2_keys(KeyTable& t) {
  t.push_back(built("model.model_type", PLACE(model_type), "\"gpt2\".").derived("required").not_auto());
  t.push_back(built("model.n_layer", PLACE(gpt2.n_layer), "Transformer blocks.").between(1, 10'000));
  t.push_back(built("model.n_embd", PLACE(gpt2.n_embd), "Width, a multiple of n_head.").between(1, 1'000'000));
  t.push_back(built("model.n_head", PLACE(gpt2.n_head), "Attention heads.").between(1, 100'000));
  t.push_back(
      built("model.n_positions", PLACE(gpt2.n_positions), "Longest sequence.").between(1, int_max).in("tokens"));
  t.push_back(
      built("model.vocab_size", PLACE(gpt2.vocab_size), "Number of token ids; 256 fits bytes.").between(1, int_max));
  t.push_back(built("model.n_inner", PLACE(gpt2.n_inner), "Width of the feed-forward part.")
                  .between(1, 10'000'000)
                  .derived("4 n_embd")
                  .or_null());
  t.push_back(built("model.activation_function", PLACE(gpt2.activation_function),
                    "gelu_new and gelu_pytorch_tanh are the same function.")
                  .one_of({"gelu_new", "gelu_pytorch_tanh", "gelu", "relu"}));
  t.push_back(built("model.layer_norm_epsilon", PLACE(gpt2.layer_norm_epsilon), "Added to the variance.").above(0, 1));
  t.push_back(built("model.initializer_range", PLACE(gpt2.initializer_range), "Standard deviation of initial weights.")
                  .above(0, 10));
  t.push_back(built("model.resid_pdrop", PLACE(gpt2.resid_pdrop), "Dropout on what each block adds.").below(0, 1));
  t.push_back(built("model.embd_pdrop", PLACE(gpt2.embd_pdrop), "Dropout on embeddings.").below(0, 1));
  t.push_back(built("model.attn_pdrop", PLACE(gpt2.attn_pdrop), "Dropout on attention weights.").below(0, 1));
  t.push_back(built("model.tie_word_embeddings", PLACE(gpt2.tie_word_embeddings),
                    "The head uses the token embedding's weight."));
  t.push_back(built("model.n_ctx", PLACE(n_ctx), "Old name of n_positions; must equal it where it is given.")
                  .between(1, int_max)
                  .derived("n_positions"));
  t.push_back(
      later("model.scale_attn_weights", {true}, "Attention scores are divided by the root of the head's width."));
  t.push_back(later("model.scale_attn_by_inverse_layer_idx", {false}, "Attention scores scaled by layer."));
  t.push_back(later("model.reorder_and_upcast_attn", {false}, "fp32 attention in a 16-bit model."));
  t.push_back(later("model.add_cross_attention", {false}, "Cross attention."));
  t.push_back(later("model.is_encoder_decoder", {false}, "Encoder and decoder."));
  t.push_back(later("model.cross_attention_hidden_size", {nullptr}, "Cross attention."));
  t.push_back(later("model.gradient_checkpointing", {false}, "Recomputation."));
  t.push_back(later("model.pruned_heads", {nullptr, base::Json::object()}, "Pruned heads."));
  t.push_back(later("model.use_bfloat16", {false}, "Weights other than fp32."));
  t.push_back(later("model.torch_dtype", {nullptr, "float32"}, "Weights other than fp32."));
  t.push_back(later("model.dtype", {nullptr, "float32"}, "Weights other than fp32."));
  for (const char* name : {"architectures",
                           "is_decoder",
                           "transformers_version",
                           "_name_or_path",
                           "_attn_implementation",
                           "bos_token_id",
                           "eos_token_id",
                           "pad_token_id",
                           "sep_token_id",
                           "decoder_start_token_id",
                           "use_cache",
                           "output_past",
                           "output_attentions",
                           "output_hidden_states",
                           "return_dict",
                           "torchscript",
                           "chunk_size_feed_forward",
                           "finetuning_task",
                           "id2label",
                           "label2id",
                           "num_labels",
                           "_num_labels",
                           "problem_type",
                           "prefix",
                           "tokenizer_class",
                           "task_specific_params",
                           "summary_type",
                           "summary_use_proj",
                           "summary_activation",
                           "summary_proj_to_labels",
                           "summary_first_dropout",
                           "tf_legacy_loss"}) {
    t.push_back(carried(std::string("model.") + name, "Kept and exported as given; training does not use it."));
  }
  for (Key& key : t) key.automatic = false;
}

void add_mlp_keys(KeyTable& t) {
  t.push_back(
      built("model.model_type", PLACE(model_type), "\"mlp\": trained on synthetic samples.").derived("required"));
  t.push_back(built("model.input_size", PLACE(mlp.input_size), "Values of a sample.").between(1, 1'000'000));
  t.push_back(built("model.hidden_size", PLACE(mlp.hidden_size), "Width of the hidden layers.").between(1, 1'000'000));
  t.push_back(built("model.output_size", PLACE(mlp.output_size), "Values that are predicted.").between(1, 1'000'000));
  t.push_back(built("model.num_hidden_layers", PLACE(mlp.num_hidden_layers), "Hidden layers.").between(1, 10'000));
  t.push_back(built("model.activation_function", PLACE(mlp.activation_function), "After each hidden layer.")
                  .one_of({"relu", "tanh", "gelu"}));
  for (Key& key : t) key.automatic = false;
}

#undef PLACE
// NOLINTEND

KeyTable made(void (*fill)(KeyTable&)) {
  KeyTable table;
  fill(table);
  return table;
}

}  // namespace

const KeyTable& config_keys() {
  static const KeyTable table = made([](KeyTable& t) {
    add_top_keys(t);
    add_optimizer_keys(t);
    add_scheduler_keys(t);
    add_parallel_keys(t);
    add_own_blocks(t);
    add_later_keys(t);
  });
  return table;
}

const KeyTable& gpt2_keys() {
  static const KeyTable table = made(add_gpt2_keys);
  return table;
}

const KeyTable& mlp_keys() {
  static const KeyTable table = made(add_mlp_keys);
  return table;
}

}  // namespace trireme::spec
