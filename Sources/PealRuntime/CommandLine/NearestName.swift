/// Finds the name that somebody probably meant.
package enum NearestName {
    /// The name at the smallest edit distance, or nil when all are further than a third of the word's length (at least 2,
    /// of words up to three letters 1).
    package static func of(_ word: String, among names: [String]) -> String? {
        let limit = word.count <= 3 ? 1 : max(2, word.count / 3)
        let ranked = names.map { (name: $0, distance: distance(Array(word), Array($0))) }
        guard let best = ranked.min(by: { $0.distance < $1.distance }), best.distance <= limit else {
            return names.first { $0.hasPrefix(word) && word.count >= 2 }
        }
        return best.name
    }

    /// Edit distance where swapping two neighbours counts as one, as that is how people mistype.
    private static func distance(_ a: [Character], _ b: [Character]) -> Int {
        var rows = [Array(0...b.count)]
        for i in 1..<max(a.count + 1, 1) {
            var row = [i]
            for j in 1..<max(b.count + 1, 1) {
                let cost = a[i - 1] == b[j - 1] ? 0 : 1
                var best = min(row[j - 1] + 1, rows[i - 1][j] + 1, rows[i - 1][j - 1] + cost)
                if i > 1, j > 1, a[i - 1] == b[j - 2], a[i - 2] == b[j - 1] {
                    best = min(best, rows[i - 2][j - 2] + 1)
                }
                row.append(best)
            }
            rows.append(row)
        }
        return rows[a.count][b.count]
    }
}
