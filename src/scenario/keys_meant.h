#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/scenario/document.h"

// Keys of the scenario file under the names that they have elsewhere.
namespace stepcast::scenario {

// The key that was meant by one that no reader knows, both dotted: "training.micro_batch_size" for
// "mbs" (the field's or another program's word for it) and for "micro_batch_size" (its last part,
// in another section). Empty: none is known.
std::string KeyMeant(std::string_view path);

// The same of a word that the key, dotted, does not take: "bf16" for "bfloat16". Empty: none is
// known.
std::string ValueMeant(std::string_view path, std::string_view value);

// Names the key, or the value, that was meant in the hints of unknown ones; `first`: the first of
// the diagnostics that are of the scenario file `root`.
void SuggestKeysMeant(const Node& root, std::size_t first, Diagnostics& diagnostics);

}  // namespace stepcast::scenario
