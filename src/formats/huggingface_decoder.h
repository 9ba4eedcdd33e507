#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "src/formats/huggingface_reader.h"
#include "src/model/architecture.h"

// What the configurations of several decoders share.
namespace stepcast::formats {

// Where each dimension stands in the file, by its name in a model file, where the two differ: to
// place what model::Check finds.
using KeysOfFields = std::map<std::string, std::string>;

// Dimensions that a file may leave to its class; 0: it must state them.
struct DecoderDefaults {
  std::int64_t heads = 0, vocabulary = 0;
};

// Dimensions, tied embeddings and dropout, as LlamaConfig has them and those that follow it.
model::Architecture ReadRotaryDecoder(model::Family family, HuggingFaceReader& reader,
                                      KeysOfFields& keys, const DecoderDefaults& absent = {});

// Dimensions as GPT2Config names them and those that follow it. The number of positions is left to
// the caller.
model::Architecture ReadGpt2Dimensions(model::Family family, HuggingFaceReader& reader,
                                       KeysOfFields& keys);

// The products and their bytes are those of SwiGLU whatever function gates.
void ReadGate(HuggingFaceReader& reader);

// `attention_bias`: of queries, keys, values and of the output; `mlp_bias`.
void ReadBiases(HuggingFaceReader& reader, model::Architecture& architecture);

// Of classes that know no window: a file that states one is refused.
void ReadFullAttention(HuggingFaceReader& reader, const model::Architecture& architecture);

// A window of so many tokens, in the layers that `layer_types` calls so; without it, in all from
// `first_layer` on, which `key` states. 0: there is none.
void ReadWindow(HuggingFaceReader& reader, std::int64_t window, std::int64_t first_layer,
                const std::string& key, model::Architecture& architecture);

// `use_sliding_window`, `sliding_window` and, if `layer_types` is not there, `max_window_layers`,
// the first layer that has the window, as Qwen2Config has them and those that follow it.
void ReadOptionalWindow(HuggingFaceReader& reader, model::Architecture& architecture);

// The layers have a window, but for each so-many-th; `layer_types`, where it is there, holds in the
// place of `full_every`.
void ReadAlternatingWindow(HuggingFaceReader& reader, std::int64_t window, std::int64_t full_every,
                           model::Architecture& architecture);

}  // namespace stepcast::formats
