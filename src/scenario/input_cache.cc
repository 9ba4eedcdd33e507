#include "src/scenario/input_cache.h"

#include "src/scenario/input_contents.h"

namespace stepcast::scenario {

InputCache::InputCache() : contents_(std::make_unique<Contents>()) {}
InputCache::~InputCache() = default;

}  // namespace stepcast::scenario
