// Rows of text under a heading, with columns as wide as their widest cell.
#ifndef DEDUPE_SERVER_APP_TEXT_TABLE_H_
#define DEDUPE_SERVER_APP_TEXT_TABLE_H_

#include <string>
#include <utility>
#include <vector>

namespace dedupe {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> heading) {
    rows_.push_back(std::move(heading));
  }

  // As many cells as the heading has.
  void Add(std::vector<std::string> cells) {
    rows_.push_back(std::move(cells));
  }

  // A line for each row, two spaces between columns, none at the end.
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace dedupe

#endif  // DEDUPE_SERVER_APP_TEXT_TABLE_H_
