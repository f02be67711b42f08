#include "server/app/text_table.h"

#include <algorithm>

namespace dedupe {

std::string TextTable::Text() const {
  std::vector<size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < widths.size(); ++i) {
      text += row[i];
      if (i + 1 < widths.size())
        text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace dedupe
