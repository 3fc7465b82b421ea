//! Texts read by the SQL grammar, within limits.

use sqlparser::ast::{Expr, SelectItem};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::ExpressionError;
use super::error::At;

const MAX_BYTES: usize = 1 << 20;
/// Words and signs; values in a list and the commas between them do not count.
const MAX_WORDS: usize = 2_000;

/// One expression and nothing behind it.
pub(super) fn expression(text: &str) -> Result<Expr, ExpressionError> {
    let mut parser = Parser::new(&GenericDialect).with_tokens_with_locations(tokens(text)?);
    let parsed = parser.parse_expr().map_err(unreadable)?;
    end(&parser)?;
    Ok(parsed)
}

/// One expression with or without a name, and nothing behind it.
pub(super) fn item(text: &str) -> Result<(Expr, Option<String>), ExpressionError> {
    let mut parser = Parser::new(&GenericDialect).with_tokens_with_locations(tokens(text)?);
    let parsed = parser.parse_select_item().map_err(unreadable)?;
    end(&parser)?;
    match parsed {
        SelectItem::UnnamedExpr(parsed) => Ok((parsed, None)),
        SelectItem::ExprWithAlias { expr, alias } => Ok((expr, Some(alias.value))),
        other => Err(ExpressionError::Unsupported {
            at: At { line: 1, letter: 1 },
            what: format!("{:?}", other.to_string()),
            choices: "name the columns one by one".to_owned(),
        }),
    }
}

fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, ExpressionError> {
    if text.len() > MAX_BYTES {
        return Err(ExpressionError::TooLong { what: "bytes", found: text.len(), most: MAX_BYTES });
    }
    let tokens = Tokenizer::new(&GenericDialect, text)
        .tokenize_with_location()
        .map_err(|e| unreadable(ParserError::from(e)))?;
    // Every word can be a level that is walked by recursion; a list of values is none.
    let words = tokens
        .iter()
        .filter(|token| {
            !matches!(
                token.token,
                Token::Whitespace(_) | Token::Comma | Token::Number(..) | Token::SingleQuotedString(_)
            )
        })
        .count();
    if words > MAX_WORDS {
        return Err(ExpressionError::TooLong { what: "words and signs", found: words, most: MAX_WORDS });
    }
    Ok(tokens)
}

fn end(parser: &Parser<'_>) -> Result<(), ExpressionError> {
    let next = parser.peek_token();
    match next.token {
        Token::EOF => Ok(()),
        ref found => Err(ExpressionError::GoesOn {
            at: next.span.start.into(),
            found: format!("{:?}", found.to_string()),
        }),
    }
}

fn unreadable(error: ParserError) -> ExpressionError {
    let reason = match error {
        ParserError::TokenizerError(reason) | ParserError::ParserError(reason) => reason,
        ParserError::RecursionLimitExceeded => "it nests too deep: compute in fewer steps".to_owned(),
    };
    // The parser's messages are sentences of their own.
    let mut letters = reason.chars();
    let lower = letters.next().map(|first| first.to_lowercase().chain(letters).collect());
    ExpressionError::Unreadable { reason: lower.unwrap_or_default() }
}

impl From<Location> for At {
    fn from(location: Location) -> Self {
        Self { line: location.line, letter: location.column }
    }
}
