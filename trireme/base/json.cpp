#include "trireme/base/json.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/names.h"

namespace trireme::base {
namespace {

// nlohmann's writer and copy constructor recurse; a document this deep is no configuration and no header
constexpr size_t kMaxDepth = 256;

/// `index`: the byte that is at fault.
[[noreturn]] void fail(std::string_view text, const std::string& source, size_t index, const std::string& sentence) {
  const std::string_view before = text.substr(0, std::min(index, text.size()));
  const auto line = std::ranges::count(before, '\n') + 1;
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  throw ConfigError(text_of(source, ":", line, ":", before.size() - line_start + 1, ": ", sentence));
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

void refuse_word(std::string_view text, const std::string& source, size_t begin, std::string_view word) {
  if (word == "NaN" || word == "nan" || word == "Infinity" || word == "infinity" || word == "inf" || word == "Inf")
    fail(text, source, begin, text_of(word, " is not a JSON number; write a finite number"));
  if (word == "True" || word == "False")
    fail(text, source, begin, text_of(word, " is not JSON; write ", word == "True" ? "true" : "false"));
  if (word == "None") fail(text, source, begin, "None is not JSON; write null");
}

/// The text with every comment turned into blanks, so that positions stay. Also refuses words that people write for
/// numbers and constants, for which nlohmann's sentence is obscure.
std::string without_comments(std::string_view text, const std::string& source, JsonComments comments) {
  std::string out(text);
  const auto blank = [&](size_t begin, size_t end) {
    if (comments == JsonComments::Refused) fail(text, source, begin, "comments are not allowed here");
    for (size_t i = begin; i < end; ++i)
      if (out[i] != '\n') out[i] = ' ';
  };
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
      ++i;
    } else if (c == '#' || text.substr(i, 2) == "//") {
      const size_t end = std::min(text.find('\n', i), text.size());
      blank(i, end);
      i = end;
    } else if (text.substr(i, 2) == "/*") {
      const size_t end = text.find("*/", i + 2);
      if (end == std::string_view::npos) fail(text, source, i, "this comment has no end");
      blank(i, end + 2);
      i = end + 2;
    } else if (is_word(c)) {
      size_t end = i;
      while (end < text.size() && is_word(text[end])) ++end;
      refuse_word(text, source, i, text.substr(i, end - i));
      i = end;
    } else {
      ++i;
    }
  }
  return out;
}

/// Runs over the text and shows the caller how far the parser has come.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** shared) : at_(at), shared_(shared) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *shared_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    Cursor old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** shared_;
};

/// Builds the value from nlohmann's events and watches over depth and keys.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& source) : text_(text), source_(source), position_(text.data()) {}

  Json parse() {
    Json::sax_parse(Cursor(text_.data(), &position_), Cursor(text_.data() + text_.size(), &position_), this);
    return std::move(root_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& value) override {
    Frame& frame = frames_.back();
    if (!frame.keys.insert(value).second) {
      frames_.back().key = std::move(value);
      fail(text_, source_, static_cast<size_t>(position_ - text_.data()) - 1,
           "duplicate key " + base::quoted(path(), 200));
    }
    frame.key = std::move(value);
    return true;
  }

  bool parse_error(size_t position, const std::string& last_token, const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();
    const bool at_end = what.find("unexpected end of input") != what.npos;
    const size_t index = at_end ? text_.size() : start_of_token(position, last_token);
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow)
      fail(text_, source_, index, text_of("number ", printable(last_token), " is beyond the range of a double"));
    const size_t sentence = what.find("syntax error");
    fail(text_, source_, index, printable(sentence == what.npos ? what : what.substr(sentence), 300));
  }

 private:
  struct Frame {
    Json* container;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  // Where the token begins whose last byte stands before `position`.
  size_t start_of_token(size_t position, const std::string& token) const {
    const bool is_string = token.size() > 1 && token.front() == '"' && token.back() == '"';
    // nlohmann shows control bytes as <U+000A>, which makes the token longer than it is
    if (is_string && token.find("<U+") == token.npos) return position - std::min(position, token.size());
    size_t index = std::min(position, text_.size());
    if (index > 0) --index;
    while (index > 0 && is_word(text_[index]) && (is_word(text_[index - 1]) || text_[index - 1] == '-')) --index;
    return index;
  }

  // "optimizer.betas[1].x": where the current key stands
  std::string path() const {
    std::string out;
    for (const Frame& frame : frames_) {
      if (frame.container->is_array()) {
        out += text_of("[", frame.container->size() - 1, "]");
      } else {
        out += (out.empty() ? "" : ".") + frame.key;
      }
    }
    return out;
  }

  template <class Value>
  bool add(Value&& value) {
    place(Json(std::forward<Value>(value)));
    return true;
  }

  Json* place(Json value) {
    if (frames_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Frame& frame = frames_.back();
    if (frame.container->is_array()) {
      frame.container->push_back(std::move(value));
      return &frame.container->back();
    }
    // emplace_back of the underlying vector: that of the ordered map looks through all keys, which `keys` has done
    auto& members = static_cast<Json::object_t::Container&>(frame.container->get_ref<Json::object_t&>());
    return &members.emplace_back(frame.key, std::move(value)).second;
  }

  bool open(Json container) {
    if (frames_.size() == kMaxDepth)
      fail(text_, source_, static_cast<size_t>(position_ - text_.data()) - 1,
           text_of("nested deeper than ", kMaxDepth, " levels"));
    // stays valid: while a container is open, nothing is added to those around it
    frames_.push_back({place(std::move(container)), {}, {}});
    return true;
  }

  bool close() {
    frames_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& source_;
  const char* position_;
  Json root_;
  std::vector<Frame> frames_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& source, JsonComments comments) {
  const std::string plain = without_comments(text, source, comments);
  if (plain.find_first_not_of(" \t\r\n") == std::string::npos) fail(text, source, 0, "no JSON here: the text is empty");
  return Builder(plain, source).parse();
}

std::string shown(const Json& value, size_t limit) {
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), limit);
}

}  // namespace trireme::base
