#pragma once

#include <cstdint>

#include "src/formats/huggingface.h"

// The keys of a config.json that the file of its family does not define. models/families/keys.yaml
// describes the effects of these keys. Each key changes neither shapes nor time (names, token ids,
// constants of kernels), changes the layers, or is unknown.
namespace stepcast::scenario {

// How JudgeOtherKeys treats unknown keys.
enum class UnknownConfigKeys : std::uint8_t {
  kWarnOf,
  kPassOver,  // ignore: one warning already covers all keys outside the text model
};

// Reports all values that `reader` did not request:
//   - an error (model.not-modelled) for a key that changes shapes, FLOPs or memory, unless its
//     value has no effect: null, false, 0, empty, or the behavior without the key;
//   - a warning for a key that changes only values or a little elementwise work, and for an unknown
//     key.
void JudgeOtherKeys(formats::HuggingFaceReader& reader, UnknownConfigKeys unknown);

// Accepts the config keys that enable norms of queries and keys, for model types whose layers
// always have these norms.
void AcceptHeadNorms(formats::HuggingFaceReader& reader);

}  // namespace stepcast::scenario
