#pragma once

#include <cstdlib>
#include <string_view>

// How much of a law one run of the tests looks at. Where looking at everything takes minutes of a
// processor, a run takes some of it, the same each time; with STEPCAST_SAMPLES=all in the
// environment it takes everything.
namespace stepcast {

// `few` and `all`: numbers of samples, texts, whatever tells how much.
template <typename T>
T Samples(T few, T all) {
  const char* const asked = std::getenv("STEPCAST_SAMPLES");
  return asked != nullptr && std::string_view(asked) == "all" ? all : few;
}

}  // namespace stepcast
