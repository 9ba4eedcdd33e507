#pragma once

#include <string_view>

// What earlier releases modelled and this one does not. A file that asks for it is told so by name.
namespace stepcast::plan {

struct Withdrawn {
  std::string_view section, key;  // "data_parallel", "framework"
  // The word of the key that has gone; empty: the key itself has.
  std::string_view word;
  // What it was, in the plural, and a hint.
  const char* what;
  const char* hint;
};

inline constexpr Withdrawn kWithdrawn[] = {
    {"parallelism", "vocabulary", "", "vocabularies shared out over the stages of a pipeline",
     "leave it out: the embedding is on the first stage and the head on the last one"},
};

}  // namespace stepcast::plan
