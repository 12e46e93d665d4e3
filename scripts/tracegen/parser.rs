// SPDX-License-Identifier: GPL-2.0

//! Reads a declaration from its tokens.

use crate::lexer::{lex, Token, TokenKind};
use crate::source::{Diagnostic, Source, Spanned};
use crate::syntax::{
    Body, ClassDecl, Declaration, Docs, EnumDecl, EventDecl, FieldDecl, Name, Shape, VariantDecl,
};

/// The macro whose argument is the declaration.
const MACRO: &str = "trace_events";

/// What parsing gives, or the first thing that is wrong.
type Parsed<T> = Result<T, Diagnostic>;

/// Reads the declaration in `source`.
pub(crate) fn parse(source: &Source) -> Parsed<Declaration> {
    let tokens = lex(&source.text)?;
    let opening = [
        TokenKind::Ident(MACRO.into()),
        TokenKind::Punct('!'),
        TokenKind::Punct('{'),
    ];
    let mut starts = (0..tokens.len()).filter(|&at| {
        let here = tokens[at..].iter().map(|token| &token.kind);
        here.take(opening.len()).eq(opening.iter())
    });
    let (first, second) = (starts.next(), starts.next());
    let end = tokens[tokens.len() - 1].span;
    let Some(first) = first else {
        return Err(Diagnostic::new(
            end,
            format!("there is no `{MACRO}! {{ … }}` in this file"),
        ));
    };
    if let Some(second) = second {
        let message = format!("a file has one `{MACRO}! {{ … }}`, this is the second");
        return Err(Diagnostic::new(tokens[second].span, message));
    }
    Parser {
        tokens: &tokens,
        at: first + opening.len(),
    }
    .declaration()
}

/// The tokens of the file, and how far they have been read.
struct Parser<'a> {
    /// All tokens; the last is the end of the file.
    tokens: &'a [Token],
    /// How many have been read.
    at: usize,
}

impl<'a> Parser<'a> {
    /// The next token, which stays the next.
    fn peek(&self) -> &'a Token {
        // The last token, the end of the file, is never passed.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    /// Takes the next token.
    fn bump(&mut self) -> &'a Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// Complains that the next token is not what was `wanted`.
    fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let token = self.peek();
        let found = token.kind.describe();
        Err(Diagnostic::new(
            token.span,
            format!("expected {wanted}, found {found}"),
        ))
    }

    /// Takes `c` if it is next.
    fn eat(&mut self, c: char) -> bool {
        let found = self.peek().kind == TokenKind::Punct(c);
        if found {
            self.at += 1;
        }
        found
    }

    /// Takes `c`.
    fn expect(&mut self, c: char) -> Parsed<()> {
        if self.eat(c) {
            return Ok(());
        }
        self.unexpected(&format!("`{c}`"))
    }

    /// Takes `=>`.
    fn arrow(&mut self) -> Parsed<()> {
        let adjacent = |pair: &[Token]| pair[0].span.end == pair[1].span.start;
        let next = self.tokens.get(self.at..self.at + 2);
        match next {
            Some(pair)
                if pair[0].kind == TokenKind::Punct('=')
                    && pair[1].kind == TokenKind::Punct('>')
                    && adjacent(pair) =>
            {
                self.at += 2;
                Ok(())
            }
            _ => self.unexpected("`=>`"),
        }
    }

    /// Takes an identifier.
    fn name(&mut self, what: &str) -> Parsed<Name> {
        let TokenKind::Ident(text) = &self.peek().kind else {
            return self.unexpected(what);
        };
        let span = self.bump().span;
        let value = text.clone();
        Ok(Spanned { value, span })
    }

    /// Takes a string literal.
    fn string(&mut self, what: &str) -> Parsed<Spanned<String>> {
        let TokenKind::Str(text) = &self.peek().kind else {
            return self.unexpected(what);
        };
        let span = self.bump().span;
        let value = text.clone();
        Ok(Spanned { value, span })
    }

    /// Takes a number.
    fn number(&mut self) -> Parsed<Spanned<u64>> {
        let TokenKind::Number(text) = &self.peek().kind else {
            return self.unexpected("a number");
        };
        let digits = text.replace('_', "");
        let parsed = match digits.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        let Ok(value) = parsed else {
            return self.unexpected("a decimal or hexadecimal number");
        };
        let span = self.bump().span;
        Ok(Spanned { value, span })
    }

    /// Takes the doc comment before an item, if there is one.
    fn docs(&mut self) -> Docs {
        let mut docs = Docs::new();
        while let TokenKind::Doc(line) = &self.peek().kind {
            docs.push(line.clone());
            self.at += 1;
        }
        docs
    }

    /// Takes the brace that closes a list, if it is next; there must be no `docs` before it.
    fn closes(&mut self, docs: &Docs) -> Parsed<bool> {
        if !self.eat('}') {
            return Ok(false);
        }
        if docs.is_empty() {
            return Ok(true);
        }
        // Before the brace, which has been taken.
        let comment = &self.tokens[self.at - 2];
        Err(Diagnostic::new(
            comment.span,
            "this doc comment documents nothing",
        ))
    }

    /// Takes the whole declaration, with the brace that closes it.
    fn declaration(&mut self) -> Parsed<Declaration> {
        let keyword = self.name("`system`")?;
        if keyword.value != "system" {
            self.at -= 1;
            return self.unexpected("`system`");
        }
        let system = self.name("the name of the trace system")?;
        self.expect(';')?;

        let mut declaration = Declaration {
            system,
            enums: Vec::new(),
            classes: Vec::new(),
            events: Vec::new(),
        };
        loop {
            let docs = self.docs();
            if self.closes(&docs)? {
                return Ok(declaration);
            }
            match &self.peek().kind {
                TokenKind::Ident(keyword) if keyword == "enum" => {
                    declaration.enums.push(self.enumeration(docs)?);
                }
                TokenKind::Ident(keyword) if keyword == "class" => {
                    declaration.classes.push(self.class(docs)?);
                }
                TokenKind::Ident(keyword) if keyword == "event" => {
                    declaration.events.push(self.event(docs)?);
                }
                _ => return self.unexpected("`enum`, `class`, `event` or `}`"),
            }
        }
    }

    /// Takes `enum Name { … }`.
    fn enumeration(&mut self, docs: Docs) -> Parsed<EnumDecl> {
        self.bump();
        let name = self.name("the name of the enum")?;
        let variants = self.braced(Self::variant)?;
        Ok(EnumDecl {
            docs,
            name,
            variants,
        })
    }

    /// Takes `Name = value => "text"`.
    fn variant(&mut self, docs: Docs) -> Parsed<VariantDecl> {
        let name = self.name("the name of a value")?;
        self.expect('=')?;
        let value = self.number()?;
        self.arrow()?;
        let text = self.string("the value's printed form, a string")?;
        Ok(VariantDecl {
            docs,
            name,
            value,
            text,
        })
    }

    /// Takes `class name { … } => "…";`.
    fn class(&mut self, docs: Docs) -> Parsed<ClassDecl> {
        self.bump();
        let name = self.name("the name of the class")?;
        let body = self.body()?;
        Ok(ClassDecl { docs, name, body })
    }

    /// Takes `event name { … } => "…";` or `event name: class;`.
    fn event(&mut self, docs: Docs) -> Parsed<EventDecl> {
        self.bump();
        let name = self.name("the name of the event")?;
        let shape = match &self.peek().kind {
            TokenKind::Punct('{') => Shape::Own(self.body()?),
            TokenKind::Punct(':') => {
                self.bump();
                let class = self.name("the name of a class")?;
                self.expect(';')?;
                Shape::Class(class)
            }
            _ => return self.unexpected("`{` or `:`"),
        };
        Ok(EventDecl { docs, name, shape })
    }

    /// Takes `{ fields } => "…";`.
    fn body(&mut self) -> Parsed<Body> {
        let fields = self.braced(Self::field)?;
        self.arrow()?;
        let print = self.string("the printed form, a string")?;
        self.expect(';')?;
        Ok(Body { fields, print })
    }

    /// Takes `name: Type`.
    fn field(&mut self, docs: Docs) -> Parsed<FieldDecl> {
        let name = self.name("the name of a field")?;
        self.expect(':')?;
        let ty = self.name("the type of the field")?;
        Ok(FieldDecl { docs, name, ty })
    }

    /// Takes a list in braces: each item with its doc comment, commas between them.
    fn braced<T>(&mut self, item: impl Fn(&mut Self, Docs) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        self.expect('{')?;
        loop {
            let docs = self.docs();
            if self.closes(&docs)? {
                return Ok(items);
            }
            items.push(item(self, docs)?);
            if !self.eat(',') {
                if self.eat('}') {
                    return Ok(items);
                }
                return self.unexpected("`,` or `}`");
            }
        }
    }
}
