/// A number and what it counts: `1 app`, `2,000 apps`.
package func counted(_ number: some BinaryInteger, _ singular: String) -> String {
    "\(Digits.grouped(Int(number))) \(singular)\(number == 1 ? "" : "s")"
}
