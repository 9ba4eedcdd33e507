#pragma once

#include <cstdint>

#include "src/formats/huggingface.h"

// The keys of a config.json that no family's file states. models/families/keys.yaml lists what they
// mean. Derived models add keys to a known type, and programs add their own keys. A key either
// changes neither shapes nor time (names, token ids, constants of kernels), or changes the layers,
// or is unknown.
namespace stepcast::scenario {

// How JudgeOtherKeys treats unknown keys.
enum class UnknownConfigKeys : std::uint8_t {
  kWarnOf,
  kPassOver,  // ignore: keys around the text model, which is left out with one warning
};

// Judges all values that `reader` did not request. A key that changes shapes, FLOPs or memory is
// refused (model.not-modelled), unless its value is neutral. Neutral values are null, false, 0,
// empty, or what the layers do in any case (such as a factor of 1). A key that changes only values,
// or a little elementwise work, causes a warning. An unknown key also causes a warning.
void JudgeOtherKeys(formats::HuggingFaceReader& reader, UnknownConfigKeys unknown);

// Accepts the config keys that switch norms of queries and keys on. Call this for model types whose
// layers always have these norms.
void AcceptHeadNorms(formats::HuggingFaceReader& reader);

}  // namespace stepcast::scenario
