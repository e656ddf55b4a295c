//! What holds for the keys with a prefix: `PREFIX=LEVEL`.

use tier::PrefixRule;

use super::field::Listed;

impl Listed for PrefixRule {
    const EXAMPLE: &'static str = "[\"session:=memory\"]";

    fn parse(item: &str) -> Result<Self, String> {
        item.parse()
    }
}
