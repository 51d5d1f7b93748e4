/// A number and what it counts: `1 app`, `2 apps`.
package func counted(_ number: some BinaryInteger, _ singular: String) -> String {
    "\(number) \(singular)\(number == 1 ? "" : "s")"
}
