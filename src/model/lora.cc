#include "src/model/lora.h"

#include <algorithm>
#include <iterator>

namespace stepcast::model {

std::string Text(const AdaptedLayers& layers) {
  std::string text;
  for (const AdaptedLayerName& known : kAdaptedLayerNames) {
    const auto* first =
        std::find_if(std::begin(kAdaptedLayerNames), std::end(kAdaptedLayerNames),
                     [&](const AdaptedLayerName& other) { return other.member == known.member; });
    if (!(layers.*known.member) || first != &known) continue;
    if (!text.empty()) text += ' ';
    text += known.name;
  }
  return text;
}

}  // namespace stepcast::model
