#pragma once

#include "trireme/layers/job.h"
#include "trireme/layers/layers.h"
#include "trireme/spec/model.h"

namespace trireme::model {

/// GPT-2 (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019) as layers:
///
///   wte      tokens int64 [batch, sequence] -> [batch, sequence, n_embd]
///   wpe      adds the positions' embeddings, drops out
///   h.0 …    n_layer blocks
///   ln_f
///   lm_head  -> logits [batch, sequence, vocab_size]; its weight is wte's if tie_word_embeddings
///
/// Parameter names, shapes and meaning are those of Hugging Face's GPT2Model ("h.0.attn.c_attn.weight" is
/// [n_embd, 3 * n_embd]: Conv1D, columns query | key | value). Weights start as there: normal with initializer_range,
/// the two projections back into the residual stream divided by sqrt(2 * n_layer), biases 0, LayerNorm 1 and 0.
/// Dropouts act where layers::forward_state().training is set. Sequences longer than n_positions throw base::DataError.
layers::Layers gpt2(const spec::Gpt2Spec& spec);

/// Cross entropy of logits [batch, sequence, vocab_size] with the batch's first target, int64 [batch, sequence];
/// targets of kIgnoredTarget are neither summed nor counted.
layers::LossSum next_token_loss(const layers::Tensors& outputs, const data::Batch& batch);
inline constexpr int64_t kIgnoredTarget = -100;

}  // namespace trireme::model
