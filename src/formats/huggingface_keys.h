#pragma once

#include "src/formats/huggingface_reader.h"

// The keys of a config.json that its model_type gives no meaning to. Derived models add keys to a
// known type, and programs add keys of their own: each is either known to change neither shapes nor
// time (names, token ids, constants of kernels), or known to change the layers, or not known.
namespace stepcast::formats {

// What a key that is not known at all means.
enum class UnknownKeys : std::uint8_t {
  kWarnOf,
  kPassOver,  // of what lies around the text model, which is said to be left out as a whole
};

// Judges all values that `reader` was not asked for. A key that changes shapes, FLOPs or memory is
// refused (model.not-modelled) unless its value is neutral: null, false, 0, empty, or what the
// layers are in any case (a factor of 1). One that changes values alone, or a little elementwise
// work, is warned of, and so is one that is not known.
void JudgeOtherKeys(HuggingFaceReader& reader, UnknownKeys unknown);

// Accepts the keys that say whether queries and keys have norms of their own: in a type whose layers
// have them in any case they say nothing.
void AcceptHeadNorms(HuggingFaceReader& reader);

}  // namespace stepcast::formats
