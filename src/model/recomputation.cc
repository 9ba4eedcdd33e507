#include "src/model/recomputation.h"

namespace stepcast::model {

const char* Name(Checkpointing checkpointing) {
  switch (checkpointing) {
    case Checkpointing::kNone:
      return "none";
    case Checkpointing::kSelective:
      return "selective";
    case Checkpointing::kFull:
      return "full";
  }
  return "";
}

const char* Name(Attention attention) { return attention == Attention::kFlash ? "flash" : "math"; }

}  // namespace stepcast::model
