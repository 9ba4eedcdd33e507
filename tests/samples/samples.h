#pragma once

#include <cstdlib>
#include <string_view>

// How many samples of an invariant one test run checks. If checking everything takes minutes, a run
// checks a fixed part of it. With STEPCAST_SAMPLES=all in the environment it checks everything.
namespace stepcast {

// `few` and `all` may be numbers of samples, texts, or other measures of the amount.
template <typename T>
T Samples(T few, T all) {
  const char* const asked = std::getenv("STEPCAST_SAMPLES");
  return asked != nullptr && std::string_view(asked) == "all" ? all : few;
}

}  // namespace stepcast
