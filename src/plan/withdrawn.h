#pragma once

#include <string_view>

// Settings and values of earlier releases. If a file contains a withdrawn setting or value, an
// error gives a hint.
namespace stepcast::plan {

struct Withdrawn {
  std::string_view path;  // "data_parallel.framework"
  std::string_view word;  // the removed value; empty: the key itself was removed
  const char* what;       // description in the plural, for messages
  const char* hint;
};

inline constexpr Withdrawn kWithdrawn[] = {
    {"parallelism.vocabulary", "", "a vocabulary that is divided among the stages of a pipeline",
     "remove the key: the first stage has the embedding, and the last stage has the head"},
    {"data_parallel.framework", "internevo", "plans of InternEvo",
     "write framework: megatron or reference"},
    {"training.norm", "apex_fp32", "norms of FP32 copies (InternEvo)", "write norm: apex"},
};

}  // namespace stepcast::plan
