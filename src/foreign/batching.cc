#include "src/foreign/batching.h"

#include <string>

#include "fmt/format.h"

namespace stepcast::foreign {

void ReadBatching(Reading& reading, std::string_view batching, std::string_view because_of) {
  Draft& draft = reading.draft();
  const bool packed = batching == "packed";
  if (packed && draft.Covers("training.document_length")) return;
  if (draft.Has("training.lengths.histogram")) {
    if (reading.Stated(because_of) != nullptr) {
      reading.Set("training.lengths.batching", std::string(batching), because_of);
    } else {
      draft.Assume("training.lengths.batching", std::string(batching),
                   fmt::format("not set in {}", reading.document().file));
    }
    return;
  }
  if (draft.Covers("training.lengths")) return;
  reading.Omit(
      because_of,
      fmt::format("{}, so the step is too long. Give the lengths of your samples as [tokens, "
                  "samples] pairs: --set 'training.lengths.histogram=[[512, 70], [2048, 30]]'{}",
                  packed ? "attention sees whole sequences" : "every sequence has the full length",
                  packed ? ", or --set training.document_length=512" : ""));
}

}  // namespace stepcast::foreign
