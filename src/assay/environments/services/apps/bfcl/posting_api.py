"""BFCL's `TwitterAPI`: posts, comments and followers of one account."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from msgspec import field

from .tool_class import ClassState, Setting, ToolClass


class PostingState(ClassState):
    """Attributes of the account."""

    username: str = "john"
    password: str = "john123"
    authenticated: bool = False
    tweets: dict[int, dict[str, Any]] = field(default_factory=dict)
    comments: dict[Any, list[dict[str, str]]] = field(default_factory=dict)
    retweets: dict[str, list[int]] = field(default_factory=dict)
    following_list: list[str] = field(default_factory=lambda: ["alice", "bob"])
    tweet_counter: int = 0

    @classmethod
    def load(cls, scenario: Mapping[str, Any], setting: Setting) -> Self:
        state = super().load(scenario, setting)
        state.tweets = {int(key): tweet for key, tweet in state.tweets.items()}
        return state


posting: Final = ToolClass("TwitterAPI", "bfclposting", "An account for short posts.", PostingState)
service: Final = posting.service


def _refusal(before: str) -> dict[str, str]:
    return {"error": f"User not authenticated. Please authenticate before {before}."}


def _no_tweet(tweet_id: int) -> dict[str, str]:
    return {"error": f"Tweet with ID {tweet_id} not found."}


@posting.tool
def authenticate_twitter(state: PostingState, username: str, password: str) -> Any:
    """Logs in to the account.

    Args:
        username: Name of the account.
        password: Password of the account.
    """
    if (username, password) != (state.username, state.password):
        return {"authentication_status": False}
    state.authenticated = True
    return {"authentication_status": True}


@posting.tool
def posting_get_login_status(state: PostingState) -> Any:
    """Says whether the account is logged in."""
    return {"login_status": bool(state.authenticated)}


@posting.tool
def post_tweet(state: PostingState, content: str, tags: list[str] = [], mentions: list[str] = []) -> Any:  # noqa: B006
    """Publishes a post.

    Args:
        content: Text of the post.
        tags: Tags, each beginning with #.
        mentions: Mentioned users, each beginning with @.
    """
    if not state.authenticated:
        return _refusal("posting")
    tweet = {
        "id": state.tweet_counter,
        "username": state.username,
        "content": content,
        "tags": tags,
        "mentions": mentions,
    }
    state.tweets[state.tweet_counter] = tweet
    state.tweet_counter += 1
    return tweet


@posting.tool
def retweet(state: PostingState, tweet_id: int) -> Any:
    """Shares a post.

    Args:
        tweet_id: Identifier of the post.
    """
    if not state.authenticated:
        return _refusal("retweeting")
    if tweet_id not in state.tweets:
        return _no_tweet(tweet_id)
    shared = state.retweets.setdefault(state.username, [])
    if tweet_id in shared:
        return {"retweet_status": "Already retweeted"}
    shared.append(tweet_id)
    return {"retweet_status": "Successfully retweeted"}


@posting.tool
def comment(state: PostingState, tweet_id: int, comment_content: str) -> Any:
    """Comments on a post.

    Args:
        tweet_id: Identifier of the post.
        comment_content: Text of the comment.
    """
    if not state.authenticated:
        return _refusal("commenting")
    if tweet_id not in state.tweets:
        return _no_tweet(tweet_id)
    state.comments.setdefault(tweet_id, []).append({"username": state.username, "content": comment_content})
    return {"comment_status": "Comment added successfully"}


@posting.tool
def mention(state: PostingState, tweet_id: int, mentioned_usernames: list[str]) -> Any:
    """Adds mentions of users to a post.

    Args:
        tweet_id: Identifier of the post.
        mentioned_usernames: Names of the users.
    """
    if tweet_id not in state.tweets:
        return _no_tweet(tweet_id)
    state.tweets[tweet_id]["mentions"].extend(mentioned_usernames)
    return {"mention_status": "Users mentioned successfully"}


@posting.tool
def follow_user(state: PostingState, username_to_follow: str) -> Any:
    """Follows a user.

    Args:
        username_to_follow: Name of the user.
    """
    if not state.authenticated:
        return _refusal("following")
    if username_to_follow in state.following_list:
        return {"follow_status": False}
    state.following_list.append(username_to_follow)
    return {"follow_status": True}


@posting.tool
def list_all_following(state: PostingState) -> Any:
    """Lists the users whom the account follows."""
    if not state.authenticated:
        return _refusal("listing following")
    return {"following_list": state.following_list}


@posting.tool
def unfollow_user(state: PostingState, username_to_unfollow: str) -> Any:
    """Stops following a user.

    Args:
        username_to_unfollow: Name of the user.
    """
    if not state.authenticated:
        return _refusal("unfollowing")
    if username_to_unfollow not in state.following_list:
        return {"unfollow_status": False}
    state.following_list.remove(username_to_unfollow)
    return {"unfollow_status": True}


@posting.tool
def get_tweet(state: PostingState, tweet_id: int) -> Any:
    """Shows a post.

    Args:
        tweet_id: Identifier of the post.
    """
    return state.tweets[tweet_id] if tweet_id in state.tweets else _no_tweet(tweet_id)


@posting.tool
def get_user_tweets(state: PostingState, username: str) -> Any:
    """Lists the posts of a user.

    Args:
        username: Name of the user.
    """
    return [tweet for tweet in state.tweets.values() if tweet["username"] == username]


@posting.tool
def search_tweets(state: PostingState, keyword: str) -> Any:
    """Finds the posts whose text contains a word, or that have it as a tag.

    Args:
        keyword: The word; case does not matter.
    """
    word = keyword.lower()
    return [
        tweet
        for tweet in state.tweets.values()
        if word in tweet["content"].lower() or word in [tag.lower() for tag in tweet["tags"]]
    ]


@posting.tool
def get_tweet_comments(state: PostingState, tweet_id: int) -> Any:
    """Lists the comments on a post.

    Args:
        tweet_id: Identifier of the post.
    """
    return state.comments.get(tweet_id, []) if tweet_id in state.tweets else _no_tweet(tweet_id)


@posting.tool
def get_user_stats(state: PostingState, username: str) -> Any:
    """Counts a user's posts, followed users and shared posts.

    Args:
        username: Name of the user.
    """
    return {
        "tweet_count": sum(tweet["username"] == username for tweet in state.tweets.values()),
        "following_count": len(state.following_list) if username == state.username else 0,
        "retweet_count": len(state.retweets.get(username, [])),
    }
