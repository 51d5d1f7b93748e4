/// The version of peal.
package enum Version {
    /// As `peal --version` prints it.
    package static let current = "0.1.0"
}
